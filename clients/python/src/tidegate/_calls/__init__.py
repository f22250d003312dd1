"""The requests of the API, independent of how they are sent."""
