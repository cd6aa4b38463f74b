"""Use cases over the ports: what a front door calls."""
