"""Reads delete files and finds the rows that survive them."""
