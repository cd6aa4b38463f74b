"""The model and the stores as one stream of commands sees them.

A side is one implementation of the port. Leases carry the side's own ``seq``, so each side keeps its own list of them;
a command names a lease by its position, which is the same on every side as long as their answers are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from holdfast.core.commands import Claim, Submit, SubmitAnswer
from holdfast.core.job import Job, Lease
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.testing.clock import ManualClock
from holdfast.testing.factories import submit_answers
from holdfast.testing.model import Model
from holdfast.testing.model.world import ModelJob

WORKERS: Final = tuple(UUID(int=0xF00D << 64 | n) for n in range(3))
QUEUES: Final = ("default", "other")
TYPES: Final = ("resize", "send")
CRONS: Final = ("nightly", "hourly ü")
UNKNOWN_JOB: Final = UUID(int=0xDEAD)


@dataclass(slots=True)
class Side:
    name: str
    store: Any
    clock: ManualClock
    leases: list[Lease] = field(default_factory=list)


class Told:
    """A store, or the model, as engines and workers tell it things: what is bad input never reaches it (PORT-5)."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def submit(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        return await submit_answers(self._store, *submits)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        checked = getattr(work, verb, None)
        asked: Callable[..., Any] = getattr(self._store, verb) if checked is None else partial(checked, self._store)
        return asked


class AsyncModel:
    """The model behind coroutines, so that one piece of code asks it and a store."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        ask = getattr(self._model, verb)

        async def asked(*arguments: Any, **options: Any) -> Any:
            return ask(*arguments, **options)

        return asked


@dataclass(slots=True)
class Book:
    """What a stream has done so far, by which its commands are made concrete. The model says what exists."""

    clock: ManualClock
    model: Model
    made: int = 0
    job_ids: list[UUID] = field(default_factory=list)
    """Of accepted jobs, removed ones too."""
    submits: list[Submit] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    tokens: list[tuple[UUID, UUID]] = field(default_factory=list)
    """The job and the token of each lease ever given, as the sides list them."""

    noted_tick_at: datetime | None = None
    """As seen by a store that notes only some of its ticks."""
    gap_timeout_seconds: float = 0.0
    """Of the last tick that came after a gap."""

    def new_id(self) -> UUID:
        self.made += 1
        return UUID(int=0xA << 64 | self.made, version=4)

    def note(self, leases: list[Lease]) -> None:
        """What exists after a step."""
        known = set(self.job_ids)
        self.job_ids += [job_id for job_id in self.model.world.jobs if job_id not in known]
        self.tokens = [(lease.job_id, lease.token) for lease in leases]

    def jobs(self, states: frozenset[State] | None) -> list[ModelJob]:
        return [job for job in self.model.world.jobs.values() if states is None or job.state in states]

    def job_id(self, pick: int, states: frozenset[State] | None) -> UUID:
        """The newest in these states for 0, older ones from there on; any that ever was, if there is none."""
        found = [job.id for job in self.jobs(states)] or self.job_ids or [UNKNOWN_JOB]
        return found[-1 - pick % len(found)]

    def lease_index(self, pick: int, *, is_valid: bool) -> int | None:
        valid = {(job.id, job.token) for job in self.jobs(frozenset({State.RUNNING}))}
        found = [n for n, pair in enumerate(self.tokens) if (pair in valid) is is_valid] or list(
            range(len(self.tokens))
        )
        return found[-1 - pick % len(found)] if found else None


Jobs = dict[UUID, Job]
