"""Proof that nobody can write to the file, for a worker whose heartbeat cannot.

A worker that cannot write must assume, after a while, that others took its jobs over. But to take a job over is to
write, too. ``PRAGMA data_version`` needs no lock, and changes with every commit of another connection: as long as it
stays the same, nobody has taken anything. That holds whatever keeps us from writing: a lock that somebody else holds,
or a full disk.
"""

import sqlite3
import time
from typing import Final

from holdfast.core.ports import Standstill
from holdfast.stores.sqlite.errors import translate

FRESH_SECONDS: Final = 2.5
"""A proof is as good as its last look. A worker that cannot write tries again more often than this."""


class Watchman:
    """Written by the writer's thread alone, read by anybody."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._version: int | None = None
        self._since = 0.0
        self._looked_at = 0.0
        self._error: sqlite3.Error | None = None

    @property
    def standstill(self) -> Standstill | None:
        error = self._error
        if error is None or time.monotonic() - self._looked_at > FRESH_SECONDS:
            return None
        return Standstill(since=self._since, seen_at=self._looked_at, reason=str(translate(error)))

    def note_refusal(self, error: sqlite3.Error) -> None:
        """A write of ours was refused, or is kept waiting."""
        try:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self._error = None
            return
        now = time.monotonic()
        if self._error is None or version != self._version:
            self._version, self._since = version, now
        self._looked_at = now
        self._error = error

    def note_commit(self) -> None:
        self._error = None
