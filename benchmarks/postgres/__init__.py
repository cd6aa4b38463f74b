"""What is measured on PostgreSQL, and the raw SQL it is measured against."""
