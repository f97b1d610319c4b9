"""Audits replace snapshots of any tool: compares the rows before and after."""
