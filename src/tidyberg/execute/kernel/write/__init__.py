"""Writes Parquet files: row groups, pages, dictionaries, compression and output sizes."""
