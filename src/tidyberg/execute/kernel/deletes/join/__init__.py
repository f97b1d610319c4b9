"""Finds the rows of equality deletes that do not fit into memory: keys are divided by their hash, then joined."""
