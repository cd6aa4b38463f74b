"""How workers hear of work (``core.ports.Delivery``)."""
