"""The plots: a program for an environment that has matplotlib."""
