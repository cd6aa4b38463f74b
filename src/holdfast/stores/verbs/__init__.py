"""The verbs, written once over a Transaction: lock, decide in ``core``, write."""
