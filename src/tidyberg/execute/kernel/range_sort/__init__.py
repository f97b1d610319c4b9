"""Sorts the rows of a group that is larger than memory: sample the key, cut inputs into ranges, merge each range."""
