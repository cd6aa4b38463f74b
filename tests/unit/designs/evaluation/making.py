"""Samples with known figures."""

from collections.abc import Sequence
from random import Random
from typing import Any

from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.profiles import Cell, Mix
from holdfast.designs.evaluation.samples import Sample

CORES = 2
SECONDS = 2.0
HOPS_MS = {"a": {"submit": 3.0, "status": 2.0, "result": 3.0}, "b": {"submit": 1.0, "status": 1.0, "result": 1.0}}
DEFAULT_MS = {"submit": 2.0, "status": 1.2, "result": 1.2}


def mix(clients: int = 1, **given: Any) -> Cell:
    return Cell(
        **{
            "workload": "reads",
            "pattern": "mix",
            "loop": "closed",
            "clients": clients,
            "mix": Mix(submit=1, status=6, result=3),
            **given,
        }
    )


def journey(clients: int = 1, **given: Any) -> Cell:
    return Cell(**{"workload": "jobs", "pattern": "journey", "loop": "closed", "clients": clients, **given})


def sample(design: str = "a", cell: Cell | None = None, **given: Any) -> Sample:
    """A second's calls all take as many milliseconds as the operation has hops."""
    milliseconds = HOPS_MS.get(design, DEFAULT_MS)
    figures: dict[str, Any] = {
        "design": design,
        "round": 0,
        "cell": cell or mix(),
        "seconds": SECONDS,
        "calls": {"submit": 20, "status": 120, "result": 60},
        "times": {name: Times([round(one * 1000)] * 100).encode() for name, one in milliseconds.items()},
        "errors": {},
        "sent": {"submit": [30], "status": [140], "result": [70]},
        "accepted": 30,
        "ends": {"done": 30},
        "done_in_window": 20,
        "submit_to_done": Times([9000] * 20).encode(),
        "queue_wait": Times([3000] * 20).encode(),
        "lateness": Times().encode(),
        "design_cpu_seconds": 1.0,
        "memory_mib": 120.0,
        "generator_cpu_seconds": 0.5,
        "other_cpu_seconds": 0.0,
        "cores": CORES,
    }
    return Sample(**figures | given)


def rounds(design: str, cell: Cell, rates: Sequence[float], seed: int = 1) -> list[Sample]:
    """One a round, with so many requests a second."""
    random = Random(seed)
    return [
        sample(
            design,
            cell,
            round=number,
            calls={"submit": round(rate * SECONDS), "status": 0, "result": 0},
            done_in_window=round(rate),
            design_cpu_seconds=1.0 + random.random() / 10,
        )
        for number, rate in enumerate(rates)
    ]
