"""The service: it accepts, queues, schedules and runs jobs. The API and the scheduler call it."""
