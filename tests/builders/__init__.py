"""Builders and helpers that two or more test modules use; test modules import from here, never from each other."""
