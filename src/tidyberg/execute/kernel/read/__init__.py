"""Opens Parquet files and reads their rows, or what a copy must know of them."""
