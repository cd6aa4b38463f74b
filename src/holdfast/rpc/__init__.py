"""The gRPC front door: D0's frozen contracts, the client, and the durable engine as a server of them."""
