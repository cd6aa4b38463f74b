"""What makes a comparison fair, checked before and during the run; what is not fair is refused. Pure but for one look.

Numbered as in the README: FAIRNESS-1 slots, FAIRNESS-2 ingress, FAIRNESS-3 an idle machine, FAIRNESS-4 the same load.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.errors import Conflict
from holdfast.designs.evaluation.designs import DESIGNS, TITLES, split_of
from holdfast.designs.evaluation.samples import Sample
from holdfast.designs.evaluation.usage import machine

LOOK_SECONDS: Final = 2.0
MAX_BUSY_SHARE: Final = 0.10
"""Of the whole machine, by whatever else runs on it, just before the run."""
MAX_LOAD_A_CORE: Final = 0.5
"""The load average of the last minute: catches what the look of two seconds happens to miss."""
DISTURBED_SHARE: Final = 0.10
"""A cell in which others used more than this of the machine is marked."""


class UnfairRun(Conflict):
    """The figures would not be comparable; nothing was measured."""

    code = "unfair_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    required: str
    seen: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.seen} (required: {self.required})"


def slots_seen(starts_ms: Sequence[int], *, job_ms: int) -> int:
    """How many jobs had started before any of them can have ended: each had a slot of its own."""
    return sum(started < min(starts_ms) + job_ms for started in starts_ms)


def check_slots(design: str, *, slots: int, seen: int) -> Check:
    return Check(
        name=f"slots of {TITLES[design]}",
        required=f"{slots} in all: {split_of(DESIGNS[design], slots)}",
        seen=f"{seen} jobs ran at once",
        holds=seen == slots,
    )


def check_targets(design: str, targets: Sequence[str]) -> Check:
    wanted = DESIGNS[design].targets
    return Check(
        name=f"ingress of {TITLES[design]}",
        required="the one address" if wanted == 1 else f"{wanted} different nodes",
        seen=", ".join(targets),
        holds=len(set(targets)) == len(targets) == wanted,
    )


def check_split(design: str, slots: int) -> Check:
    """Each node of Design B has the same whole number of slots."""
    nodes = DESIGNS[design].targets
    return Check(
        name=f"split of the slots over {TITLES[design]}",
        required=f"a multiple of {nodes}",
        seen=str(slots),
        holds=slots % nodes == 0,
    )


def check_round_robin(sample: Sample, *, generators: int) -> Check:
    """Every generator goes round by itself, so that nodes may differ by one submit a generator."""
    submits = sample.sent["submit"]
    return Check(
        name=f"submits to {TITLES[sample.design]}, {sample.cell.key}",
        required=f"evenly over {len(submits)} target(s)",
        seen=", ".join(str(count) for count in submits),
        holds=max(submits) - min(submits) <= generators,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    busy_share: float
    load_average: float
    cores: int

    def check(self) -> Check:
        return Check(
            name="the machine, before the run",
            required=f"≤ {MAX_BUSY_SHARE:.0%} busy, load average ≤ {MAX_LOAD_A_CORE * self.cores:g}",
            seen=f"{self.busy_share:.0%} busy, load average {self.load_average:.2f}",
            holds=self.busy_share <= MAX_BUSY_SHARE and self.load_average <= MAX_LOAD_A_CORE * self.cores,
        )


async def look_at_machine(seconds: float = LOOK_SECONDS) -> Idleness:
    before = machine()
    await asyncio.sleep(seconds)
    share = machine().busy_since(before)
    return Idleness(busy_share=share, load_average=os.getloadavg()[0], cores=cores())


async def wait_until_idle(patience_seconds: float) -> Check:
    """As soon as it is, or what was seen last."""
    deadline = time.monotonic() + patience_seconds
    while True:
        check = (await look_at_machine()).check()
        if check.holds or time.monotonic() >= deadline:
            return check


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def require(checks: Sequence[Check], *, force: bool = False) -> None:
    wrong = [check for check in checks if not check.holds]
    if wrong and not force:
        raise UnfairRun(f"this run would not be fair; --force goes on and says so in the report: {_listed(wrong)}")


def disturbed(samples: Sequence[Sample]) -> Mapping[str, float]:
    """Cells in which others used much of the machine: the largest share seen in a round."""
    found: dict[str, float] = {}
    for sample in samples:
        share = sample.figures().get("other_share", 0.0)
        if share > DISTURBED_SHARE:
            name = f"{TITLES[sample.design]}, {sample.cell.key}"
            found[name] = max(share, found.get(name, 0.0))
    return found


def _listed(checks: Sequence[Check]) -> str:
    return "; ".join(str(check) for check in checks)
