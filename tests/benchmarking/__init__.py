"""Tests of the copy that `tidyberg bench` measures."""
