"""Times as people give them: seconds, or a timedelta. Inside there are only seconds, with the unit in the name."""

from datetime import timedelta

Seconds = float | timedelta
"""The type of every public parameter that is a time."""


def seconds_of(time: Seconds) -> float:
    """What is neither is passed on as it is: whoever stores it refuses it by the name of its field."""
    return time.total_seconds() if isinstance(time, timedelta) else time
