"""What one visit to one cell gave, and the figures that follow from it. A line of ``samples.jsonl`` each."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigError
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.tally import OPERATIONS

PERCENTS: Final = (50, 95, 99)
MILLISECONDS: Final = 1000.0


class Sample(Struct, frozen=True, kw_only=True, dict=True):
    design: str
    round: int
    cell: Cell
    seconds: float
    calls: dict[str, int]
    """Answered within the window, by operation."""
    times: dict[str, str]
    errors: dict[str, int]
    """By operation and code, over the whole visit."""
    sent: dict[str, list[int]]
    """By operation, to each target, over the whole visit."""
    accepted: int
    ends: dict[str, int]
    """Of the accepted jobs: done, failed, canceled; unknown where nobody waited for the end."""
    done_in_window: int
    submit_to_done: str
    queue_wait: str
    lateness: str
    design_cpu_seconds: float | None
    """None where the design's processes are not ours to see."""
    memory_mib: float | None
    generator_cpu_seconds: float
    other_cpu_seconds: float | None
    """Of everything else on the machine; not known where the design's own is not."""
    cores: int

    @property
    def requests(self) -> int:
        return sum(self.calls.values())

    @property
    def is_accounted_for(self) -> bool:
        """Is the end of every accepted job known?"""
        return not self.ends.get("unknown")

    def figures(self) -> dict[str, float]:
        """By name; what was not measured is left out."""
        return self._figures

    @cached_property
    def _figures(self) -> dict[str, float]:
        found: dict[str, float | None] = {"requests_per_second": self.requests / self.seconds}
        if self.is_accounted_for:
            found["jobs_per_second"] = self.done_in_window / self.seconds
        for operation in OPERATIONS:
            if operation in self.times:
                found |= _percentiles(operation, Times.decode(self.times[operation]))
        found |= _percentiles("submit_to_done", Times.decode(self.submit_to_done))
        found |= _percentiles("queue_wait", Times.decode(self.queue_wait))
        found |= self._costs()
        found["errors"] = float(sum(self.errors.values()))
        return {name: value for name, value in found.items() if value is not None}

    def _costs(self) -> dict[str, float | None]:
        cpu, busy = self.design_cpu_seconds, self.seconds * self.cores
        costs: dict[str, float | None] = {
            "memory_mib": self.memory_mib,
            "generator_cores": self.generator_cpu_seconds / self.seconds,
        }
        if cpu is not None:
            costs["design_cores"] = cpu / self.seconds
            costs["generator_share"] = self.generator_cpu_seconds / max(1e-9, self.generator_cpu_seconds + cpu)
            costs["cpu_ms_per_request"] = cpu * MILLISECONDS / self.requests if self.requests else None
            costs["cpu_ms_per_job"] = cpu * MILLISECONDS / self.done_in_window if self._has_jobs else None
        if self.other_cpu_seconds is not None:
            costs["other_share"] = self.other_cpu_seconds / busy
        return costs

    @property
    def _has_jobs(self) -> bool:
        return self.is_accounted_for and self.done_in_window > 0


def _percentiles(name: str, times: Times) -> dict[str, float | None]:
    if not times.count:
        return {}
    return {
        f"{name}_p{percent}_ms": value for percent, value in zip(PERCENTS, times.percentiles(PERCENTS), strict=True)
    }


def merged(samples: Iterable[Sample], operation: str) -> Times:
    """One operation's times over all rounds."""
    if operation in ("submit_to_done", "queue_wait", "lateness"):
        return Times.sum(Times.decode(getattr(sample, operation)) for sample in samples)
    return Times.sum(Times.decode(sample.times[operation]) for sample in samples if operation in sample.times)


def append(path: Path, sample: Sample) -> None:
    """At once, so that a run that is broken off leaves what it has measured."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(sample) + b"\n")


def read(path: Path) -> Sequence[Sample]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; is this the folder of an evaluation?") from None
    try:
        return [msgspec.json.decode(line, type=Sample) for line in lines if line]
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} does not hold an evaluation's samples: {error}") from None
