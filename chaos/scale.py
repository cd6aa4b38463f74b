"""The times of a run. Shorter than the defaults by a factor of five to ten, so that a run sees many leases expire.

There are several heartbeats in a worker timeout, as by default. What a heartbeat leaves of a lease, at least two
thirds, is a little longer than the worker timeout: so a worker that falls silent loses its jobs by that, and one that
is stopped for long by either.
"""

from typing import Final

LEASE_SECONDS: Final = 5.0
HEARTBEAT_SECONDS: Final = 0.5
WORKER_TIMEOUT_SECONDS: Final = 3.0
TICK_SECONDS: Final = 0.4
POLL_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 4.0
"""What stands for the store's minute: within it, searches from the beginning find whatever became visible late, or was
locked when it should have been found. Those of the tables take two thirds of it, as by default."""
SWEEP_SCALE: Final = SWEEP_SECONDS / 60.0
LATE_COMMIT_SECONDS: Final = 3 * SWEEP_SECONDS
"""For how long a submit's transaction stays open: no search but one from the beginning finds its jobs afterwards."""
HELD_SECONDS: Final = (1.2 * WORKER_TIMEOUT_SECONDS, 1.8 * WORKER_TIMEOUT_SECONDS)
"""For how long a caller's transaction keeps its locks."""
COMMAND_SECONDS: Final = 6.0
"""How long a statement may take: what ends a connection that is half open."""
SUBMISSION_SECONDS: Final = 10.0
STOP_SECONDS: Final = (4.5, 7.0)
"""Longer than a lease and the tick that takes it away."""
STALL_SECONDS: Final = (3.5, 5.0)
SERVER_CLOCK_SECONDS: Final = 5 * 3600
"""Not scaled: by how much the clock of PostgreSQL jumps."""
LONG_SECONDS: Final = (6.0, 9.0)
"""Of handlers that outlast any of these: they would run beside themselves if nobody told them to stop."""
STOPPED_SECONDS: Final = 0.1 * WORKER_TIMEOUT_SECONDS
"""Within which a handler has to stop once it is told, to be never run beside itself. One that shows no sign of life for
longer than that cannot."""

USUAL_ATTEMPTS: Final = 30
"""So many that faults alone rarely spend them."""
SMALL_BUDGET: Final = 3
"""Of jobs that fail by themselves: here a budget that is overrun would show."""
