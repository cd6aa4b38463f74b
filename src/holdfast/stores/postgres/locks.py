"""Who waits for whose lock, and for how long.

A lock is ours, for milliseconds, or that of somebody's open transaction (``submit(connection=...)``), for as long as it
pleases them. Nobody can tell them apart, so nobody waits for long, or for one while holding another that stands behind
it in the order:

LOCK-1. Job rows are locked in one order: ready, waiting, running, ended; in each by seq. A transaction waits in its
    first lock of job rows only, in that order, for BRIEFLY at most. Later ones take what is free. Where something is
    not, the transaction is rolled back and begins again, and its first lock takes that too (``Waiting.ahead``).
LOCK-2. Keys are tried, not waited for. A key that was inserted and not committed cannot be seen, so whoever takes one
    first takes an advisory lock of its hash. Whoever takes more than TRIED_KEYS at once does not; others who want one
    of those wait for it in the index, for KEYS_BRIEFLY, and then try again without a connection in between.
LOCK-3. tick, claim and heartbeat never wait for a job row: they skip what is locked. The telling of dependents, whose
    marks are durable, waits for TELLING_BRIEFLY; after doing so in vain nobody waits there for a second (``telling``).
LOCK-4. Marks, edges, notes and attempts are written only under the lock of a job they belong to.
LOCK-5. In a caller's own transaction every lock is waited for, as long as the caller's ``lock_timeout`` says.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.commands import NewJob
from holdfast.core.errors import Unavailable

BRIEFLY: Final = "250ms"
"""Longer than any of our own transactions holds a row, shorter than PostgreSQL takes to look for a deadlock (1 s)."""
TELLING_BRIEFLY: Final = "50ms"
"""For those whom another settle of ours is just telling."""
TRIED_KEYS: Final = 100
"""More keys than this take no advisory locks, which take up room that all of the server shares."""
KEYS_BRIEFLY: Final = "10ms"
"""For a key whose advisory lock is free: whoever holds it took more than TRIED_KEYS, and nobody knows for how long."""


class Held(Unavailable):
    """Somebody else's transaction holds these jobs (seq or ID) or keys; nothing was changed."""

    def __init__(
        self,
        names: Iterable[object] = (),
        *,
        wanted: Collection[int] = (),
        is_key: bool = False,
        has_waited: bool = False,
    ) -> None:
        self.names = frozenset(names)
        self.wanted = frozenset(wanted)
        """All jobs that the transaction was to lock so far."""
        self.is_key = is_key
        self.has_waited = has_waited
        what = "the key" if is_key else "the job"
        super().__init__(f"somebody's open transaction holds {what}; nothing was changed; repeat the call")


@dataclass(slots=True)
class Waiting:
    """How the transactions of one call wait. Each try learns from the last."""

    is_callers: bool = False
    may_wait: bool = True
    patience: str = BRIEFLY
    ahead: set[int] = field(default_factory=set)
    """Jobs that a try needed after its first lock, and did not get."""

    def learn(self, held: Held) -> bool:
        """Whether another try may get what this one did not."""
        if held.has_waited:
            could_wait, self.may_wait = self.may_wait, False
            return could_wait
        if held.is_key or not self.may_wait:
            return False
        self.ahead |= held.wanted
        return True


def names_of_jobs(jobs: Iterable[NewJob]) -> set[object]:
    """The keys and jobs that a submit of these jobs needs."""
    names: set[object] = set()
    for job in jobs:
        names.update(dependency.job_id for dependency in job.dependencies)
        if job.key is not None:
            names.add((job.type, job.key))
    return names
