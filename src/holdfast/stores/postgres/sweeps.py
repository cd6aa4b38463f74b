"""Where tick's searches for past times start."""

from datetime import UTC, datetime, timedelta
from typing import Final

SWEEP_OVERLAP: Final = timedelta(minutes=1)
FULL_SWEEP_EVERY: Final = 60
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Sweep:
    """Where the search for past times starts. What lies before was dealt with; dead rows there need not be walked.

    A transaction may commit late, so searches overlap, and now and then one starts from the beginning.
    """

    def __init__(self) -> None:
        self._until = BEGINNING
        self._count = 0

    def start(self) -> datetime:
        is_full = self._count % FULL_SWEEP_EVERY == 0
        return BEGINNING if is_full else max(BEGINNING, self._until - SWEEP_OVERLAP)

    def finished(self, now: datetime) -> None:
        """Everything up to ``now`` was found."""
        self._until = now
        self._count += 1


class Sweeps:
    def __init__(self) -> None:
        self.due = Sweep()
        self.expired = Sweep()
