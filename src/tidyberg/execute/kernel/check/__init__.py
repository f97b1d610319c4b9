"""Checks the metadata of outputs, and what manifests say about them, against their content."""
