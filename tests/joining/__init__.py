"""Equality deletes that a join applies."""
