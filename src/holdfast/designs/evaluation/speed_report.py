"""What a speed run leaves: the table as JSON, Markdown and one HTML page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.designs.evaluation.document import Block, Heading, Points, Table, Text, markdown, page
from holdfast.designs.evaluation.facts import MADE_BY
from holdfast.designs.evaluation.fairness import Check
from holdfast.designs.evaluation.speed_rows import Row

HEAD: Final = ("measured", "required", "figure", "95 %", "holds", "made of")
HOW: Final = (
    "Every client has its own connection to each server that it calls, on every side.\n"
    "SubmitJob on one node of Design B and the echo: 16 clients, requests a second. The jobs take 500 ms, so that the "
    "node's one slot sleeps and the figure is SubmitJob's alone; with jobs of 0 ms, which the node also runs in the "
    "same process, it is shown as well. The load generator is a process of its own; its CPU stands beside the "
    "server's, so that it can be seen which of the two was the limit.\n"
    "SubmitJob through Design A and a chain of three echoes, the first of which asks the two others one after the "
    "other: the same number of processes, calls and wake-ups. Three times a single echo call is shown as well.\n"
    "The echo is a grpc.aio server without interceptors, checks or log. It reads the same request messages and answers "
    "with messages of the same size.\n"
    "The queue wait is from created_at_ms to started_at_ms, of jobs that arrive at random on an idle design; both are "
    "whole milliseconds. At rest nothing arrives for two seconds: a design that polls busily would show it there.\n"
    "Submit to done is from when the submit was due to finished_at_ms."
).splitlines()


def cells_of(row: Row) -> list[str]:
    figure, spread = "not measured", ""
    if row.value is not None:
        figure = f"{row.value.mean:.2f}{row.unit}" if row.value.mean % 1 else f"{row.value.mean:.0f}{row.unit}"
        if row.value.low is not None and row.value.high is not None:
            spread = f"{row.value.low:.2f} … {row.value.high:.2f}"
    holds = {True: "yes", False: "no", None: ""}[row.holds]
    if not row.is_sure:
        holds += " (interval reaches past the limit)"
    return [row.measured, row.required, figure, spread, holds, row.note]


def _with_stress(cells: list[str]) -> list[str]:
    return [f"**no**{cell[2:]}" if cell == "no" or cell.startswith("no (") else cell for cell in cells]


def write_speed(
    folder: Path,
    rows: Sequence[Row],
    *,
    command: str,
    started_at: str,
    machine: Mapping[str, str],
    checks: Sequence[Check],
    rounds: int,
) -> None:
    settings = {
        "made_by": MADE_BY,
        "command": command,
        "started_at": started_at,
        "rounds": rounds,
        "machine": dict(machine),
        "checks": [
            {"name": one.name, "required": one.required, "seen": one.seen, "holds": one.holds} for one in checks
        ],
    }
    _write(folder / "config.json", settings)
    _write(folder / "speed.json", [row.data() for row in rows])
    title = "Speed of the gRPC designs"
    blocks = _blocks(rows, settings, checks)
    (folder / "report.md").write_text(markdown(title, blocks), encoding="utf-8")
    (folder / "report.html").write_text(page(title, blocks), encoding="utf-8")


def _blocks(rows: Sequence[Row], settings: Mapping[str, object], checks: Sequence[Check]) -> list[Block]:
    broken = [str(check) for check in checks if not check.holds]
    blocks: list[Block] = [
        Text(f"`{settings['command']}`, {settings['started_at']}, {settings['rounds']} rounds, in turns.")
    ]
    if broken:
        blocks += [Text("**This run was forced although it is not fair**:"), Points(broken)]
    blocks += [Table(HEAD, [_with_stress(cells_of(row)) for row in rows])]
    blocks += [Heading("How it was measured"), Points(HOW)]
    blocks += [Text("Ratios are taken within a round and averaged as logarithms; 95 % by Student's t over the rounds.")]
    machine = settings["machine"]
    assert isinstance(machine, dict)
    blocks += [Heading("The machine"), Table(["what", "value"], [[name, value] for name, value in machine.items()])]
    return blocks


def _write(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
