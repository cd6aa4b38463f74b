"""Figures of Holdfast against raw SQL, each a ratio within one run. ``README.md`` says how to read them."""
