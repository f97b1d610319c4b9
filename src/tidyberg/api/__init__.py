"""The REST API: parses, asks the service, shows."""
