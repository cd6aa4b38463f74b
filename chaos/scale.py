"""The times of a run. Shorter than the defaults by a factor of five to ten, so that a run sees many leases expire.

There are several heartbeats in a worker timeout, as by default. A lease is as long as that: either may end first.
"""

from typing import Final

LEASE_SECONDS: Final = 3.0
HEARTBEAT_SECONDS: Final = 0.5
WORKER_TIMEOUT_SECONDS: Final = 3.0
TICK_SECONDS: Final = 0.4
POLL_SECONDS: Final = 1.0
COMMAND_SECONDS: Final = 6.0
"""How long a statement may take: what ends a connection that is half open."""
SUBMISSION_SECONDS: Final = 10.0
STOP_SECONDS: Final = (4.5, 6.0)
"""Longer than a lease and the tick that takes it away."""
STALL_SECONDS: Final = (3.5, 5.0)

USUAL_ATTEMPTS: Final = 30
"""So many that faults alone rarely spend them."""
SMALL_BUDGET: Final = 3
"""Of jobs that fail by themselves: here a budget that is overrun would show."""
