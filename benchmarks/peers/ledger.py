"""What the handlers wrote: 16 bytes a run, see ``peer.py``."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENTRY: Final = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    submitted: float
    started: float
    """Seconds of CLOCK_MONOTONIC, which ``time.monotonic`` reads, too."""

    @property
    def wait_seconds(self) -> float:
        return self.started - self.submitted


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        path.chmod(0o666)

    @property
    def count(self) -> int:
        return self.path.stat().st_size // ENTRY.size

    def entries(self, *, after: int = 0) -> list[Entry]:
        """In the order they were written, without the first so many."""
        data = self.path.read_bytes()[after * ENTRY.size :]
        return [
            Entry(submitted=submitted / 1e6, started=started / 1e6)
            for submitted, started in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
        ]
