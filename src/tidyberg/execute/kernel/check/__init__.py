"""Proves that what a Parquet file says of itself is true: see `file.py`."""
