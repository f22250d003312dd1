"""The parts of the API: jobs, queues, schedules and keys."""
