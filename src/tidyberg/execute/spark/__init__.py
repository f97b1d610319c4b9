"""Runs tasks on Spark: starting it, shipping the kernel, submitting jobs."""
