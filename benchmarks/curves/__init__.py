"""Holdfast alone, as curves, in an open loop and as a flame graph of its worker. ``../README.md`` says how."""
