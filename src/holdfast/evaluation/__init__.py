"""The designs behind the public gRPC API, measured side by side: one load, one set of rules, one report."""
