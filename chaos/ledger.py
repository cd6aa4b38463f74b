"""What handlers did, outside the queue: a file that is only ever appended to, one write a line.

LEDGER-1. A line is written by one ``write`` to a descriptor with O_APPEND: lines of many processes never mix, and a
    process that is killed leaves a whole line or none.
LEDGER-2. An ``end`` stands before the handler returns: so whatever the store says was completed has one.
LEDGER-3. A handler that takes a while says several times a second that it is still at it, and that it stops, however it
    does: so it is known from when to when it ran, also where it was killed. All processes share one monotonic clock.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast
from uuid import UUID

LEDGER_VARIABLE: Final = "CHAOS_LEDGER"
LATEST_BYTES: Final = 65536

Event = Literal["start", "alive", "end", "stop"]
Kind = Literal["loop", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Entry:
    event: Event
    job_id: UUID
    attempt: int
    token: UUID
    process: int = field(default=0, compare=False)
    worker: int = field(default=0, compare=False)
    """The process of the worker it ran for: its own, or its parent."""
    kind: Kind = field(default="loop", compare=False)
    at: float = field(default=0.0, compare=False)
    """By the monotonic clock."""


_descriptors: dict[int, int] = {}


def append(event: Event, *, job_id: UUID, attempt: int, token: UUID, kind: Kind = "loop") -> None:
    """Into the file that $CHAOS_LEDGER names. Any thread, any process."""
    process = os.getpid()
    descriptor = _descriptors.get(process)
    if descriptor is None:
        descriptor = _descriptors[process] = open_to_append(Path(os.environ[LEDGER_VARIABLE]))
    worker = os.getppid() if kind == "process" else process
    write_line(descriptor, f"{event} {job_id} {attempt} {token} {process} {worker} {kind} {time.monotonic():.4f}")


def open_to_append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def write_line(descriptor: int, line: str) -> None:
    data = line.encode() + b"\n"
    if os.write(descriptor, data) != len(data):
        raise OSError("a line was not written whole")


def write_answer(descriptor: int, word: str, number: int, ids: Sequence[UUID] = ()) -> None:
    """``yes`` or ``no`` to what was tried under that number, when, and with which jobs a key was answered."""
    words = (word, str(number), f"{time.monotonic():.4f}", ",".join(map(str, ids)))
    write_line(descriptor, " ".join(part for part in words if part))


def read(path: Path) -> Iterator[Entry]:
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield parse(line)


def read_latest(path: Path) -> list[Entry]:
    """The last few hundred lines."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LATEST_BYTES))
        _, *lines = file.read().decode().split("\n")
    return [parse(line) for line in lines if line]


def parse(line: str) -> Entry:
    event, job_id, attempt, token, process, worker, kind, at = line.split()
    return Entry(
        cast(Event, event),
        UUID(job_id),
        int(attempt),
        UUID(token),
        int(process),
        int(worker),
        cast(Kind, kind),
        float(at),
    )
