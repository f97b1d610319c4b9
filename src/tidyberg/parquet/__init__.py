"""The Parquet format: Thrift, footers, pages, levels, dictionaries. Knows no tables and no storage."""
