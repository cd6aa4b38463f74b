"""What is PostgreSQL's own: migrations, plans, pooling, crashes, other people's transactions."""
