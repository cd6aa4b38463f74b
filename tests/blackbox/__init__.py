"""One suite for the public gRPC API, run unchanged against every server that speaks it, as real processes.

Two differences are declared and no others: Designs A and B forget the oldest idempotency keys, and ListJobs on a
node of Design B knows that node's jobs only.
"""
