"""The gRPC front door: the frozen contracts, the client, and the durable engine as a server of them."""
