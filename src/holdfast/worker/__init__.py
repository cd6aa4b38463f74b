"""Runs handlers: claims jobs, executes them, settles how they ended, and keeps the leases alive meanwhile."""
