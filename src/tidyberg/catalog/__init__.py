"""Catalogs: opening them, retries and time limits, the metadata files of commits, and their errors."""
