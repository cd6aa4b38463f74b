"""Tables on a terminal and in a pipe, and what the live views draw."""

import io
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from rich.console import Console
from rich.text import Text

from holdfast.cli.output import plain_table, table
from holdfast.cli.snapshot import Snapshot
from holdfast.cli.view import draw, plain
from holdfast.core.commands import QueueStats, WorkerInfo
from holdfast.core.states import State

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID = str(UUID(int=7))


def shown(what: object, *, columns: int, lines: int = 25) -> list[str]:
    console = Console(width=columns, height=lines, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get().splitlines()


def test_columns_that_are_copied_or_counted_are_never_cut() -> None:
    rows = [[ID, "a long name of a queue that nobody would choose", "12,345", "an error that goes on and on " * 3]]
    title, row = shown(table(("!ID", "Queue", ">Jobs", "Error"), rows, width=80), columns=80)
    assert len(row) <= 80
    assert ID in row
    assert "12,345" in row
    assert row.count("…") == 2
    assert title.split() == ["ID", "Queue", "Jobs", "Error"]


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    (_, row) = shown(table(("Type",), [["[red]type[/red]"]], width=80), columns=80)
    assert row.strip() == "[red]type[/red]"


def test_a_pipe_gets_whole_values_one_line_a_row() -> None:
    lines = plain_table(("!ID", "Queue", ">Jobs"), [[ID, "q" * 200, "7"], [ID, Text("größe"), "1,200"]])
    assert lines[0].split() == ["ID", "QUEUE", "JOBS"]
    assert "q" * 200 in lines[1]
    assert len(lines) == 3
    assert lines[2].endswith(" 1,200")


def test_wide_characters_keep_columns_aligned() -> None:
    first, second = plain_table(("Name", "Queue"), [["日本", "a"], ["abcd", "b"]])[1:]
    assert first == "日本  a"
    assert second == "abcd  b"


def snapshot(queues: int = 3, workers: int = 2, *, seen_ago_seconds: float = 1.0) -> Snapshot:
    return Snapshot(
        now=NOW,
        queues=tuple(
            QueueStats(
                name=f"queue-{n}",
                is_paused=n == 0,
                counts={State.SCHEDULED: n, State.COMPLETED: 1000 * n},
                oldest_scheduled_at=NOW - timedelta(seconds=90),
            )
            for n in range(queues)
        ),
        workers=tuple(
            WorkerInfo(
                id=uuid4(),
                name=f"machine-{n}",
                registered_at=NOW - timedelta(hours=2),
                seen_at=NOW - timedelta(seconds=seen_ago_seconds),
                is_lost=False,
                running=n,
            )
            for n in range(workers)
        ),
        failures=(),
        rates={"queue-1": 41.25},
        history=(1.0, 5.0, 41.25),
    )


def test_the_view_shows_what_matters() -> None:
    drawn = "\n".join(shown(draw(snapshot(), title="top", place="sqlite:///jobs.db", size=(100, 30)), columns=100))
    for expected in ("holdfast top", "sqlite:///jobs.db", "2 workers", "3 waiting (oldest 1m)", "41.2 jobs/s"):
        assert expected in drawn
    for expected in ("queue-0 (paused)", "2,000", "machine-1", "no failures", "▁▁█"):
        assert expected in drawn


@pytest.mark.parametrize(("columns", "lines"), [(100, 30), (80, 24), (60, 15), (200, 60)])
def test_the_view_fits_the_screen(columns: int, lines: int) -> None:
    notes = [Text("q quits")]
    view = draw(snapshot(queues=100, workers=100), title="top", place="p" * 200, size=(columns, lines), notes=notes)
    drawn = shown(view, columns=columns, lines=lines)
    assert len(drawn) <= max(lines, 20)
    assert max(map(len, drawn)) <= columns
    assert "more queues" in "\n".join(drawn)
    assert "q quits" in drawn[-1]
    assert "jobs/s" in drawn[1]


def test_workers_that_nobody_has_heard_of_lately_are_not_alive() -> None:
    silent = snapshot(seen_ago_seconds=60)
    assert "no worker alive" in plain(silent)[0]
    assert any("silent" in line for line in plain(silent))


def test_the_plain_view_leaves_nothing_out() -> None:
    lines = plain(snapshot(queues=100, workers=100))
    assert sum("queue-" in line for line in lines) == 100
    assert sum("machine-" in line for line in lines) == 100
