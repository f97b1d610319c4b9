"""Checks a Parquet file against its decoded values. `file.py` is the entry point."""
