"""Builders and helpers that two or more test modules share. Test modules import from here, never from each other."""
