"""Columns of the table: field ids, projection, metrics, lineage, transforms and checksums."""
