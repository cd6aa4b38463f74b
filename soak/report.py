"""What is left of a soak: a table on the terminal, ``results/soak/soak.json`` and ``soak.md``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.report import versions
from soak.judge import MOST_CHANGE, PART_SECONDS, Change
from soak.run import Outcome

REPOSITORY: Final = Path(__file__).parents[1]
FOLDER: Final = REPOSITORY / "results" / "soak"
PARTIAL_FOLDER: Final = REPOSITORY / "results" / "tmp" / "soak"
"""For a run that is too short to prove anything: it must not stand where the whole one is looked for."""
WHOLE_SECONDS: Final = 30 * 60.0
WHOLE_JOBS: Final = 2_000_000


@dataclass(kw_only=True)
class Report:
    command: str
    outcomes: list[Outcome] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def is_whole(self) -> bool:
        return all(one.settings.seconds >= WHOLE_SECONDS and one.accepted >= WHOLE_JOBS for one in self.outcomes)

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.outcomes)

    def text(self) -> str:
        return "\n\n".join(
            "\n".join([_headline(one), "", _aligned(_rows(one)), *_findings(one)]) for one in self.outcomes
        )

    def write(self) -> Path:
        """Returns the page's path inside the repository."""
        folder = FOLDER if self.is_whole else PARTIAL_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        stores = {one.settings.store for one in self.outcomes}
        name = "soak-sqlite" if stores == {"sqlite"} else "soak"
        data = json.dumps(self._data(), indent=2, ensure_ascii=False)
        (folder / f"{name}.json").write_text(data + "\n", encoding="utf-8")
        path = folder / f"{name}.md"
        path.write_text(self._markdown(), encoding="utf-8")
        return path.relative_to(REPOSITORY)

    def _data(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "started_at": self.started_at.isoformat(timespec="seconds"),
            "holds": self.holds,
            "is_whole": self.is_whole,
            "versions": versions(),
            "stores": [_data(one) for one in self.outcomes],
        }

    def _markdown(self) -> str:
        lines = ["# Under steady load", "", f"`{self.command}`, {self.started_at:%Y-%m-%d %H:%M} UTC."]
        lines += ["`soak/README.md` says what is done, and how it is judged.", ""]
        for one in self.outcomes:
            lines += [f"## {one.store}", "", _headline(one), "", *_markdown_table(_rows(one)), ""]
            if found := _findings(one):
                lines += [*(f"- {what}" for what in found), ""]
        return "\n".join(lines)


def _headline(outcome: Outcome) -> str:
    minutes = outcome.settings.seconds / 60
    part = min(PART_SECONDS, outcome.settings.seconds / 3) / 60
    return (
        f"{outcome.store}: {outcome.accepted:,} jobs in {minutes:g} minutes; lost {outcome.lost}, left {outcome.left}, "
        f"kept past their retention {outcome.kept}. The last {part:.3g} minutes and those before, "
        f"within {MOST_CHANGE:.0%}:"
    )


def _rows(outcome: Outcome) -> list[tuple[str, ...]]:
    return [("", "before", "last", "change", "holds"), *(_row(change) for change in outcome.changes)]


def _row(change: Change) -> tuple[str, ...]:
    part = "" if change.part is None else f"{change.part:+.1%}"
    return (change.name, _number(change.before), _number(change.after), part, "yes" if change.holds else "NO")


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _findings(outcome: Outcome) -> list[str]:
    return list(outcome.problems)


def _data(outcome: Outcome) -> dict[str, Any]:
    return {
        "store": outcome.store,
        "seconds": outcome.settings.seconds,
        "jobs_a_second": round(outcome.settings.jobs_a_second, 1),
        "accepted": outcome.accepted,
        "done": outcome.done,
        "lost": outcome.lost,
        "left": outcome.left,
        "kept": outcome.kept,
        "holds": outcome.holds,
        "findings": outcome.problems,
        "changes": [
            {"name": one.name, "before": one.before, "last": one.after, "part": one.part, "holds": one.holds}
            for one in outcome.changes
        ],
        "samples": [{"at_seconds": round(s.at_seconds, 1), **_rounded(s.values)} for s in outcome.samples],
    }


def _rounded(values: Any) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _markdown_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return ["| " + " | ".join(line) + " |" for line in lines]
