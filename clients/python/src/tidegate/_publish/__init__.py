"""Publishing jobs."""
