"""What is measured, a file for each kind of curve."""
