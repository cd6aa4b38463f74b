"""What is measured on SQLite, and the raw statements it is measured against."""
