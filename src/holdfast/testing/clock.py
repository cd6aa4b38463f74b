"""A clock that moves only when it is told to."""

from datetime import UTC, datetime, timedelta


def tomorrow() -> datetime:
    """This time tomorrow, to the second."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


class ManualClock:
    """Starts at ``start`` and stands still until ``advance``.

    The default start lies in the future because the PostgreSQL store also looks at the time its server was started,
    which is real: for a clock that began in the past the server would always have just been restarted.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start if start is not None else tomorrow()

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        self._now += timedelta(seconds=seconds)
