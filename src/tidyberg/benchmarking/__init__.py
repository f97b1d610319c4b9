"""Measures compaction on a copy of a table, for `tidyberg bench`."""
