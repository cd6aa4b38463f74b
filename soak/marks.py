"""One byte for each job, outside the queue: written by many processes, read at the end.

Jobs are numbered, so two million of them are a file of two megabytes, whatever the queue remembers of them.
"""

import os
from pathlib import Path
from typing import Final

SET: Final = b"\x01"


class Marks:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def set(self, number: int) -> None:
        os.pwrite(self._descriptor, SET, number)

    def missing_from(self, others: "Marks") -> list[int]:
        """Which are set here and not there."""
        here, there = self.path.read_bytes(), others.path.read_bytes()
        there = there.ljust(len(here), b"\x00")
        return [number for number, (one, other) in enumerate(zip(here, there, strict=False)) if one and not other]

    def count(self) -> int:
        return self.path.read_bytes().count(SET)
