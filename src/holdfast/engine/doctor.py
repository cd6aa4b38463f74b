"""Examine a store, look twice at what time should have moved, and repair what can be repaired.

A job that is past its bound may just have come to light: its transaction was committed late. Where it still stands the
same a minute after it was first seen, nobody will move it (EXAMINE-1, and ``core/liveness``).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.core import limits
from holdfast.core.commands import Tick
from holdfast.core.examination import (
    REPAIRED,
    TIMED,
    Code,
    Examination,
    Finding,
    Overdue,
    finding_of,
    findings_of_overdue,
    with_repairs,
)
from holdfast.core.liveness import LATE_SECONDS
from holdfast.core.ports import Store

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 10.0
MAX_TICKS: Final = 100
# What those who run the workers keep for longer must not go because somebody else looks: this tick removes nothing.
TICK: Final = Tick(
    completed_retention_seconds=limits.MAX_TIMEOUT_SECONDS, dead_retention_seconds=limits.MAX_TIMEOUT_SECONDS
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]

    @property
    def is_healthy(self) -> bool:
        """Warnings do not count."""
        return not any(finding.is_wrong for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    store: Store
    examination: Examination = Examination()  # noqa: RUF009 - frozen
    patience_seconds: float = LATE_SECONDS
    """How long what is overdue is looked at before it is believed."""
    say: Callable[[str], None] | None = None
    """Is told what takes so long."""

    async def examine(self) -> Diagnosis:
        findings, checked, _ = await self._examine()
        return Diagnosis(tuple(findings), checked)

    async def repair(self) -> Diagnosis:
        """What is found, put right where that is safe, and looked at again."""
        found, checked, overdue = await self._examine()
        codes = [Code(one.code) for one in found if one.code in REPAIRED]
        for code in codes:
            if code not in TIMED:
                await self.store.repair(code, self.examination)
        if overdue:
            await self._move(overdue)
        if not codes:
            return Diagnosis(tuple(found), checked)
        left = [finding_of(one) for one in (await self.store.examine(self.examination)).found]
        still, now = await self._still(overdue)
        return Diagnosis(tuple(with_repairs(found, [*left, *findings_of_overdue(still, now=now)])), checked)

    async def _examine(self) -> tuple[list[Finding], tuple[str, ...], list[Overdue]]:
        examined = await self.store.examine(self.examination)
        # The store is open: its tables are those of this version.
        checked = [str(code) for code in (Code.MIGRATIONS_PENDING, *examined.checked)]
        findings = [finding_of(one) for one in examined.found]
        overdue: list[Overdue] = []
        if examined.is_readable:
            overdue, now = await self._look_twice()
            findings += findings_of_overdue(overdue, now=now)
            checked += sorted(TIMED)
        return findings, tuple(checked), overdue

    async def _look_twice(self) -> tuple[list[Overdue], datetime]:
        look = await self.store.find_overdue()
        # What an examination finds by itself needs no second look.
        overdue, now = [one for one in look.overdue if one.code in TIMED], look.now
        waited, pause = 0.0, FIRST_PAUSE_SECONDS
        if overdue and self.patience_seconds and self.say is not None:
            self.say(f"{len(overdue)} past their time; looking for {self.patience_seconds:.0f} s whether they stay so")
        while overdue and waited < self.patience_seconds:
            seconds = min(pause, self.patience_seconds - waited)
            await asyncio.sleep(seconds)
            waited, pause = waited + seconds, min(2 * pause, LONGEST_PAUSE_SECONDS)
            overdue, now = await self._still(overdue)
        return overdue, now

    async def _still(self, overdue: Sequence[Overdue]) -> tuple[list[Overdue], datetime]:
        look = await self.store.find_overdue()
        there = {one.name for one in look.overdue}
        return [one for one in overdue if one.name in there], look.now

    async def _move(self, overdue: Sequence[Overdue]) -> None:
        """What a tick moves, it moves; what claims pass by gets a new place."""
        for _ in range(MAX_TICKS):
            if not (await self.store.tick(TICK)).has_more:
                break
        passed = [one.seq for one in overdue if one.code is Code.OVERDUE_SCHEDULED]
        if passed:
            await self.store.repair(Code.OVERDUE_SCHEDULED, self.examination, seqs=passed)
