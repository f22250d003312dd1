"""Workers: run handlers for the jobs of queues."""
