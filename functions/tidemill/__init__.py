"""A durable job queue and scheduler on Postgres."""
