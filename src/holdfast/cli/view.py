"""How a snapshot is drawn: for the live views, and as plain text where there is no terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast.cli import words
from holdfast.cli.output import GAP, Cell, plain_table, table
from holdfast.cli.queues import SHOWN
from holdfast.cli.snapshot import Snapshot
from holdfast.cli.workers import liveness
from holdfast.core.commands import QueueStats, WorkerInfo
from holdfast.core.job import Job
from holdfast.core.states import REPLAYABLE, State

QUEUE_COLUMNS: Final = ("Queue", *(f">{title}" for title in SHOWN if title != "Cancelled"), ">Oldest", ">/s")
WORKER_COLUMNS: Final = ("Worker", "!State", ">Seen", ">Running", ">Up", "Queues")
FAILURE_COLUMNS: Final = ("!Failed job", "Type", "!State", ">Try", ">Age", "Error")
SPARKS: Final = 30
HEADER_LINES: Final = 4
TABLE_LINES: Final = 3
"""A table's titles, how many more there are, and an empty line."""


def draw(
    snapshot: Snapshot, *, title: str, place: str, size: tuple[int, int], notes: Sequence[RenderableType] = ()
) -> Group:
    """A screen of that many columns and lines: queues first, then workers, then failures, then what ``notes`` say."""
    now = snapshot.now
    width, lines = size
    room = max(6, lines - HEADER_LINES - 3 * TABLE_LINES - len(notes))
    queues = [_queue_row(queue, snapshot) for queue in _busiest(snapshot.queues)]
    workers = [_worker_row(worker, now) for worker in _liveliest(snapshot.workers)]
    failures = [_failure_row(job, now) for job in snapshot.failures]
    shares = _shares(room, [len(queues), len(workers), len(failures)])
    parts: list[RenderableType] = [_title(title, place, now, width), _summary(snapshot, width), Text()]
    parts += [_part(QUEUE_COLUMNS, queues, shares[0], width, "queue"), Text()]
    parts += [_part(WORKER_COLUMNS, workers, shares[1], width, "worker"), Text()]
    parts.append(_part(FAILURE_COLUMNS, failures, shares[2], width, "failure"))
    if notes:
        parts += [Text(), *notes]
    return Group(*parts)


def plain(snapshot: Snapshot) -> list[str]:
    """Everything, one line a row."""
    now = snapshot.now
    lines = [_summary_text(snapshot), ""]
    if snapshot.queues:
        lines += [*plain_table(QUEUE_COLUMNS, [_queue_row(queue, snapshot) for queue in snapshot.queues]), ""]
    if snapshot.workers:
        lines += [*plain_table(WORKER_COLUMNS, [_worker_row(worker, now) for worker in snapshot.workers]), ""]
    if snapshot.failures:
        lines += plain_table(FAILURE_COLUMNS, [_failure_row(job, now) for job in snapshot.failures])
    return lines


def _shares(room: int, wanted: list[int]) -> list[int]:
    """Each gets what it wants while there is room; what one does not need, another may have."""
    shares = [0] * len(wanted)
    while room > 0 and shares != wanted:
        for index, want in enumerate(wanted):
            if shares[index] < want and room > 0:
                shares[index] += 1
                room -= 1
    return shares


def _part(columns: Sequence[str], rows: list[list[Cell]], shown: int, width: int, noun: str) -> RenderableType:
    if not rows:
        return Text(f"no {noun}s", style="dim")
    made = table(columns, rows[:shown], width=width)
    if len(rows) > shown:
        hidden = words.count_of(len(rows) - shown, f"more {noun}")
        return Group(made, Text(f"… {hidden}", style="dim"))
    return made


def _title(title: str, place: str, now: datetime, width: int) -> Text:
    left = Text.assemble((f"holdfast {title}", "bold"), ("  " + words.safe(place), "dim"))
    return _two_sided(left, Text(f"{now.astimezone():%H:%M:%S}", style="dim"), width)


def _summary(snapshot: Snapshot, width: int) -> Text:
    left = Text(counts_text(snapshot), style="" if snapshot.alive else "red")
    speed = (f"{words.rate(snapshot.rate)} jobs/s", "bold")
    recent = words.sparkline(snapshot.history[-SPARKS:])
    room = width - left.cell_len - len(speed[0]) - 2 * GAP
    # The newest stay when there is little room.
    return _two_sided(left, Text.assemble((recent[-room:] if room > 0 else "", "green"), "  ", speed), width)


def _two_sided(left: Text, right: Text, width: int) -> Text:
    """One line; where it is too narrow, the left gives way."""
    left.truncate(max(0, width - right.cell_len - GAP), overflow="ellipsis", pad=True)
    return Text.assemble(left, " " * GAP, right)


def _summary_text(snapshot: Snapshot) -> str:
    return f"{counts_text(snapshot)} · {words.rate(snapshot.rate)} jobs/s"


def counts_text(snapshot: Snapshot) -> str:
    """How things stand, in one line."""
    oldest = snapshot.oldest_scheduled_at
    waiting = f"{words.number(snapshot.count(State.SCHEDULED))} waiting"
    if oldest is not None:
        waiting += f" (oldest {words.age(oldest, snapshot.now)})"
    return " · ".join(
        (
            words.count_of(len(snapshot.alive), "worker") if snapshot.alive else "no worker alive",
            f"{words.number(snapshot.count(State.RUNNING))} running",
            waiting,
            f"{words.number(snapshot.count(State.COMPLETED))} completed",
            f"{words.number(snapshot.count(*REPLAYABLE))} dead",
        )
    )


def _busiest(queues: Sequence[QueueStats]) -> list[QueueStats]:
    def activity(queue: QueueStats) -> tuple[int, int, str]:
        live = sum(queue.counts.get(state, 0) for state in (State.RUNNING, State.SCHEDULED, State.RETRYING))
        return (-live, -sum(queue.counts.values()), queue.name)

    return sorted(queues, key=activity)


def _liveliest(workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    return sorted(workers, key=lambda worker: (worker.is_lost, worker.name, worker.registered_at))


def _queue_row(queue: QueueStats, snapshot: Snapshot) -> list[Cell]:
    counts: list[Cell] = []
    for title, states in SHOWN.items():
        count = sum(queue.counts.get(state, 0) for state in states)
        if title != "Cancelled":
            counts.append(Text(words.number(count), style=words.STYLES[states[0]]) if count else Text("·", "dim"))
    name = Text(words.safe(queue.name))
    if queue.is_paused:
        name.append(" (paused)", style="yellow")
    rate = snapshot.rates.get(queue.name, 0.0)
    oldest = words.age(queue.oldest_scheduled_at, snapshot.now) or "·"
    return [name, *counts, oldest, words.rate(rate) if rate else Text("·", "dim")]


def _worker_row(worker: WorkerInfo, now: datetime) -> list[Cell]:
    return [
        words.safe(worker.name),
        liveness(worker, now),
        words.age(worker.seen_at, now),
        words.number(worker.running),
        words.age(worker.registered_at, now),
        words.safe(", ".join(worker.queues)) or "any",
    ]


def _failure_row(job: Job, now: datetime) -> list[Cell]:
    return [
        str(job.id),
        words.safe(job.type),
        words.state(job.state),
        f"{job.attempt}/{job.retry.max_attempts}",
        words.age(job.updated_at, now),
        words.error(job.failure),
    ]
