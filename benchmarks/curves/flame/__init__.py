"""A flame graph of the worker: sampled from outside, folded, and drawn."""
