"""Holdfast: a job queue for Python whose database is the truth."""
