"""The demo: a table as a streaming job leaves it, and a query to time on it."""
