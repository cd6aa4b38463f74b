"""Two kinds of time: the clock on the wall, which may jump, and the one that only ever goes on at its pace."""

from datetime import timedelta

from holdfast.testing.clock import ManualClock


class JumpingClock(ManualClock):
    """Somebody sets it, in both directions."""

    def jump(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class Steady:
    """What processes measure their waits by. Stands in for the module ``time``, where a store asks it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds
