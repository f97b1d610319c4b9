"""The REST API: reads requests, calls the service and writes responses."""
