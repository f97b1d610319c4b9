"""Tests of the benchmarks: what they generate, measure and report."""
