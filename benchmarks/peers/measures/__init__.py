"""What is measured, a file a measure. Each takes a visit and gives a sample."""
