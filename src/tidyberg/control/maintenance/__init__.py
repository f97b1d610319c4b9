"""Maintains one table: every step is an object that can be planned and run, and one loop runs them in order."""
