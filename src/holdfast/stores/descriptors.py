"""Descriptors that end with this process: a forked child closes its copies at once.

The system lets go of what proves that a process lives, a lock or a connection, only when its last copy is closed. A
child that was forked has copies of all of them, and would go on proving that its dead parent lives.
"""

import contextlib
import os

_ours: set[int] = set()


def keep_from_children(descriptor: int) -> None:
    _ours.add(descriptor)


def forget(descriptor: int) -> None:
    """Before it is closed: its number may be given to another file then."""
    _ours.discard(descriptor)


def _close_in_child() -> None:
    while _ours:
        with contextlib.suppress(OSError):
            os.close(_ours.pop())


os.register_at_fork(after_in_child=_close_in_child)
