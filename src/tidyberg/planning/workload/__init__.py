"""Reads what queries ask of a table, and chooses the layout that lets them skip most files."""
