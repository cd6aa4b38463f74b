"""What is compared: the designs, how they split the slots, and how many RPCs an operation takes in each.

The hops are a property of the wiring (``services/``), counted along its code and listed here with their path, so that
they can stand beside every figure. A client's own call is one of them.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.rpc.limits import TOTAL_WORKER_SLOTS

OPERATION_TITLES: Final = {
    "submit": "SubmitJob",
    "status": "GetJobStatus",
    "result": "GetJobResult",
    "run": "running a job",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    count: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    key: str
    title: str
    targets: int
    """Where clients send to."""
    processes: int
    split: str
    """How the slots are divided between its processes."""
    storage: str
    hops: dict[str, Hops]


_RUN_PATH: Final = (
    "worker → coordinator (FetchWork) → queue (DequeueJob), → job (TransitionJobStatus, GetJobRecord);"
    " worker → coordinator (ReportWorkOutcome) → job (GetJobRecord), → result (StoreResult), → job (TransitionJob…)"
)
_DURABLE_HOPS: Final = {
    "submit": Hops(count=1, path="client → server, which commits"),
    "status": Hops(count=1, path="client → server, which reads"),
    "result": Hops(count=1, path="client → server, which reads"),
    "run": Hops(count=0, path="in the server: claim, run, settle, each committed"),
}
DESIGNS: Final = {
    design.key: design
    for design in (
        Design(
            key="a",
            title="Design A",
            targets=1,
            processes=6,
            split="one worker service with {slots} slots",
            storage="memory",
            hops={
                "submit": Hops(count=3, path="client → gateway → job (CreateJob), → queue (EnqueueJob)"),
                "status": Hops(count=2, path="client → gateway → job (GetJobRecord)"),
                "result": Hops(count=3, path="client → gateway → job (GetJobRecord), → result (GetResult)"),
                "run": Hops(count=8, path=_RUN_PATH),
            },
        ),
        Design(
            key="b",
            title="Design B",
            targets=6,
            processes=6,
            split="six nodes with {share} slot(s) each",
            storage="memory",
            hops={
                "submit": Hops(count=1, path="client → node; 2 with a key that another node owns"),
                "status": Hops(count=1, path="client → owner"),
                "result": Hops(count=1, path="client → owner"),
                "run": Hops(count=0, path="in the node"),
            },
        ),
        Design(
            key="durable",
            title="Durable engine (SQLite)",
            targets=1,
            processes=1,
            split="one server with {slots} slots",
            storage="a SQLite file, every accepted job committed",
            hops=_DURABLE_HOPS,
        ),
        Design(
            key="durable-postgres",
            title="Durable engine (PostgreSQL)",
            targets=1,
            processes=1,
            split="one server with {slots} slots",
            storage="PostgreSQL, every accepted job committed",
            hops=_DURABLE_HOPS,
        ),
    )
}
TITLES: Final = {design.key: design.title for design in DESIGNS.values()}


def split_of(design: Design, slots: int = TOTAL_WORKER_SLOTS) -> str:
    return design.split.format(slots=slots, share=slots // design.targets)


def hops_text(operation: str, designs: list[str]) -> str:
    """``SubmitJob 3 / 1 / 1``: beside every figure, in the order of the designs."""
    counts = " / ".join(str(DESIGNS[design].hops[operation].count) for design in designs)
    return f"{OPERATION_TITLES[operation]} {counts}"
