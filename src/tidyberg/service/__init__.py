"""The service: what waits, what runs, and when; the API and the scheduler call it."""
