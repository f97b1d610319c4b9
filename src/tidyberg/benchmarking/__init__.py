"""Measures compaction on a copy of a table: `tidyberg bench`."""
