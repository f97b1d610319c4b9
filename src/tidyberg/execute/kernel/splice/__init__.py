"""Splices files: moves pages without a dictionary as bytes into large row groups, and encodes the other columns."""
