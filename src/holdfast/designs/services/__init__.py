"""Designs A and B of the gRPC contract: their parts, written once, and the two ways to wire them."""
