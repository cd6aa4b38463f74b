"""Fixes that are taken back one at a time, to see that a test notices. Run with ``make mutants``."""
