"""The order of rows: keys, sorting, ranges and curves. All of it is pure functions on Arrow data."""
