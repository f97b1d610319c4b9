"""Proves, before a commit, that outputs hold the rows of their inputs."""
