"""Holdfast beside other job queues: each in an environment of its own, measured in turns. ``../README.md`` says how."""
