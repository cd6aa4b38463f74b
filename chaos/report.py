"""What is left of a run: tables on the terminal, ``results/chaos/chaos.json`` and ``chaos.md``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.report import versions
from chaos.checker import REQUIRED, TITLES
from chaos.faults import FAULTS
from chaos.history import Answer
from chaos.recovery import Recovery
from chaos.run import HELD_LEASES, Outcome

REPOSITORY: Final = Path(__file__).parents[1]
FOLDER: Final = REPOSITORY / "results" / "chaos"
PARTIAL_FOLDER: Final = REPOSITORY / "results" / "tmp" / "chaos"
"""For a run that is too small to prove anything: it must not stand where the whole one is looked for."""
REQUIRED_JOBS: Final = 100_000
REQUIRED_STRIKES: Final = 200
REQUIRED_STRIKES_A_FAULT: Final = 10
REQUIRED_RUNS: Final = 3
"""On PostgreSQL, on SQLite, and on PostgreSQL with a standby."""


@dataclass(kw_only=True)
class Report:
    command: str
    seed: str
    outcomes: list[Outcome] = field(default_factory=list)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def jobs(self) -> int:
        return sum(outcome.verdict.jobs for outcome in self.outcomes)

    @property
    def strikes(self) -> int:
        return sum(outcome.strikes.total() for outcome in self.outcomes)

    @property
    def is_whole(self) -> bool:
        """Large enough to count: all runs, with every fault often enough."""
        often = all(
            sum(outcome.strikes[fault.name] for outcome in self.outcomes) >= REQUIRED_STRIKES_A_FAULT
            for fault in FAULTS
        )
        return (
            len(self.outcomes) == REQUIRED_RUNS
            and often
            and self.jobs >= REQUIRED_JOBS
            and self.strikes >= REQUIRED_STRIKES
        )

    @property
    def holds(self) -> bool:
        return all(outcome.holds for outcome in self.outcomes)

    # rows

    def verdict_rows(self) -> list[tuple[str, ...]]:
        rows = [("", *(outcome.store for outcome in self.outcomes), "required")]
        rows.append(("jobs", *(f"{outcome.verdict.jobs:,}" for outcome in self.outcomes), ""))
        rows += [
            (f"… {answer}", *(f"{outcome.verdict.answers[answer]:,}" for outcome in self.outcomes), "")
            for answer in Answer
        ]
        rows.append(("handlers started", *(f"{outcome.verdict.attempts:,}" for outcome in self.outcomes), ""))
        rows.append(("faults", *(str(outcome.strikes.total()) for outcome in self.outcomes), ""))
        rows += [
            (TITLES[name], *(str(outcome.verdict.count(name)) for outcome in self.outcomes), "0") for name in REQUIRED
        ]
        rows.append(("longest overdue, s", *(f"{o.verdict.overdue_seconds:.1f}" for o in self.outcomes), "0.0"))
        rows.append(
            (
                "acknowledged, and lost with the primary of an asynchronous standby",
                *(str(outcome.verdict.forgotten) for outcome in self.outcomes),
                "",
            )
        )
        rows.append(
            (
                "double execution, s, by handlers that can stop",
                *(f"{o.verdict.double_seconds(is_excused=False):.1f}" for o in self.outcomes),
                "0.0",
            )
        )
        rows.append(
            (
                "… by handlers that cannot (threads, stopped workers, a store that forgot)",
                *(f"{o.verdict.double_seconds(is_excused=True):.1f}" for o in self.outcomes),
                "",
            )
        )
        rows.append(("snapshot pinned, % of the time", *(_pinned(outcome) for outcome in self.outcomes), ""))
        rows.append(("broken promises", *(str(len(outcome.problems)) for outcome in self.outcomes), "0"))
        rows.append(
            ("ends under a lost lease, refused", *(str(outcome.verdict.refused) for outcome in self.outcomes), "")
        )
        rows.append(("duplicates a million", *(f"{o.verdict.duplicates_per_million:,.0f}" for o in self.outcomes), ""))
        causes = sorted({cause for outcome in self.outcomes for cause in outcome.verdict.duplicates})
        rows += [(f"… {cause}", *(str(o.verdict.duplicates[cause]) for o in self.outcomes), "") for cause in causes]
        return rows

    def fault_rows(self) -> list[tuple[str, ...]]:
        columns = ("fewest leases held", "run twice, longest", "lease ended, p50 and max", "started again, p50 and max")
        rows = [("fault", *(outcome.store for outcome in self.outcomes), *columns)]
        for fault in FAULTS:
            counts = [outcome.strikes[fault.name] for outcome in self.outcomes]
            if any(counts):
                fewest = min(outcome.fewest_held.get(fault.name, 10**9) for outcome in self.outcomes)
                named = (str(fewest), self._doubles(fault.name), *self._recovery(fault.name))
                rows.append((fault.about, *(str(count or "–") for count in counts), *named))
        return rows

    def _recovery(self, fault: str) -> tuple[str, str]:
        """Of jobs whose holder was gone, from the strike on."""
        found = [recovery for one in self.outcomes for recovery in one.verdict.recoveries.get(fault, ())]
        return _spread([one.reclaimed_seconds for one in found]), _spread([one.started_seconds for one in found])

    def _doubles(self, fault: str) -> str:
        """How many jobs ran twice at once after such a fault, and for how long at the most."""
        found = [one.verdict.doubles_by_fault().get(fault, (0, 0.0)) for one in self.outcomes]
        count = sum(one for one, _ in found)
        return f"{count}, {max(longest for _, longest in found):.1f} s" if count else "–"

    def findings(self) -> list[str]:
        return [
            f"{outcome.store}: {what}"
            for outcome in self.outcomes
            for what in (*outcome.verdict.examples(), *outcome.problems)
        ]

    # text

    def text(self) -> str:
        parts = [_table(self.verdict_rows()), _table(self.fault_rows())]
        if self.findings():
            parts.append("\n".join(self.findings()))
        return "\n\n".join(parts)

    def write(self) -> Path:
        """Returns the page's path inside the repository."""
        folder = FOLDER if self.is_whole else PARTIAL_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        data = json.dumps(self._data(), indent=2, ensure_ascii=False)
        (folder / "chaos.json").write_text(data + "\n", encoding="utf-8")
        path = folder / "chaos.md"
        path.write_text(self._markdown(), encoding="utf-8")
        return path.relative_to(REPOSITORY)

    def _data(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "seed": self.seed,
            "started_at": self.started_at.isoformat(timespec="seconds"),
            "holds": self.holds,
            "is_whole": self.is_whole,
            "versions": versions(),
            "stores": [_outcome_data(outcome) for outcome in self.outcomes],
        }

    def _markdown(self) -> str:
        seconds = sum(outcome.seconds for outcome in self.outcomes)
        lines = ["# Under fire", "", f"`{self.command}`, seed {self.seed}, {self.started_at:%Y-%m-%d %H:%M} UTC,"]
        lines += [f"{seconds:.0f} s. `chaos/README.md` says what is done, and how it is judged.", ""]
        lines += [*_markdown_table(self.verdict_rows()), ""]
        lines += [f"A strike counts while at least {HELD_LEASES} leases are held:", ""]
        lines += [*_markdown_table(self.fault_rows()), ""]
        if self.findings():
            lines += ["## Findings", "", *(f"- {what}" for what in self.findings()), ""]
        return "\n".join(lines)


def _pinned(outcome: Outcome) -> str:
    return "–" if outcome.pinned_part is None else f"{100 * outcome.pinned_part:.0f}"


def _spread(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.1f} s, {max(seconds):.1f} s" if seconds else "–"


def _recovery_data(recoveries: Mapping[str, Sequence[Recovery]]) -> dict[str, dict[str, float]]:
    return {
        fault: {
            "jobs": len(found),
            "reclaimed_p50_seconds": round(median(one.reclaimed_seconds for one in found), 2),
            "reclaimed_max_seconds": round(max(one.reclaimed_seconds for one in found), 2),
            "started_p50_seconds": round(median(one.started_seconds for one in found), 2),
            "started_max_seconds": round(max(one.started_seconds for one in found), 2),
        }
        for fault, found in recoveries.items()
    }


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    verdict = outcome.verdict
    return {
        "store": outcome.store,
        "seconds": round(outcome.seconds),
        "jobs": verdict.jobs,
        "answers": dict(verdict.answers),
        "states": dict(verdict.states),
        "attempts": verdict.attempts,
        "counts": {name: verdict.count(name) for name in REQUIRED},
        "double_seconds": {
            "can_stop": round(verdict.double_seconds(is_excused=False), 2),
            "cannot_stop": round(verdict.double_seconds(is_excused=True), 2),
        },
        "doubles_by_fault": verdict.doubles_by_fault(),
        "forgotten": verdict.forgotten,
        "overdue_seconds": round(verdict.overdue_seconds, 2),
        "looks": outcome.looks,
        "recovery": _recovery_data(verdict.recoveries),
        "pinned_part": outcome.pinned_part and round(outcome.pinned_part, 3),
        "refused": verdict.refused,
        "duplicates": dict(verdict.duplicates),
        "duplicates_per_million": round(verdict.duplicates_per_million, 1),
        "strikes": dict(outcome.strikes),
        "idle_strikes": dict(outcome.idle_strikes),
        "fewest_held": outcome.fewest_held,
        "findings": [*verdict.examples(), *outcome.problems],
    }


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _markdown_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return ["| " + " | ".join(line) + " |" for line in lines]
