"""Runs on executors: reads, rewrites and checks data files. Needs only Arrow, NumPy and the standard library."""
