"""Middleware for the tools of others, driven as a worker drives it."""
