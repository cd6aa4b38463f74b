"""Nothing lost under fire: faults on a running queue, and a checker that reads what is left."""
