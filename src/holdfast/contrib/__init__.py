"""Middleware for the tools of others; each module needs an extra of its own and is imported by name."""
