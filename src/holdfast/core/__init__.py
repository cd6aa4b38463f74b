"""The rules of a job queue, pure: no I/O, no clock, no randomness, no third party."""
