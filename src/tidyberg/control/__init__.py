"""Runs one job through all stages: lease, recovery, plan, rounds, outcome."""
