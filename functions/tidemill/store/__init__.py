"""Postgres adapters: the only place that speaks SQL."""
