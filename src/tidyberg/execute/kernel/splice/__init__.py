"""Pages without a dictionary are moved as bytes into large row groups; only the other columns are encoded."""
