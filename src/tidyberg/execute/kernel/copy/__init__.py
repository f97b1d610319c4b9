"""Copies row groups as bytes into new files. Only the footer is new; nothing is decoded."""
