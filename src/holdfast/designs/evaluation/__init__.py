"""The designs behind the public gRPC API, measured side by side: one load, one set of rules, one report."""

import os

# It starts processes while gRPC runs in its own: gRPC's handlers could end such a child before it has begun.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
