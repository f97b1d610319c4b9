"""A typed client of the REST API."""
