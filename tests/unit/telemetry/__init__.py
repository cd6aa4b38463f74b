"""How Holdfast itself speaks: log lines for machines and for people."""
