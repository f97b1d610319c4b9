"""A table to play with: events as a streaming job leaves them, and a query to time on them."""
