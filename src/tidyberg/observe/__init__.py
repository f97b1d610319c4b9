"""Observes a table: pins a snapshot and lists its files from the manifests."""
