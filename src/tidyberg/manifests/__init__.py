"""Reads manifests into Arrow tables. It needs only Arrow and numpy, so the driver and executors run the same code."""
