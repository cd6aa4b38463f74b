"""Two other designs of the gRPC API, without a database, and what compares them with ours. An extra of its own."""
