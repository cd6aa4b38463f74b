"""Priority: five levels, lower runs first, inside a queue only.

A dependent inherits the best priority of what it waits for, fixed at submit.
"""

from collections.abc import Iterable
from enum import IntEnum


class Priority(IntEnum):
    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BULK = 4


def effective(own: Priority, dependencies: Iterable[Priority]) -> Priority:
    return Priority(min(own, *dependencies, own))
