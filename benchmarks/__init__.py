"""Holdfast against raw SQL and beside other job queues, each figure a ratio within one run. ``README.md`` says how."""
