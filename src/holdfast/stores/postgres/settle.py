"""settle: plain successes in one statement for any number of them; the rest takes the verbs' way.

Plain is ``Completed`` without children and progress, under a lease whose token is the job's. What the statement
guarantees stands at its head (``sql/settle.sql``). What it did not match, and whatever else there is, goes through the
verbs, in transactions of their own.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from holdfast.core.commands import Completed, SettleAnswer, Settled, Settlement
from holdfast.core.errors import Unavailable
from holdfast.core.states import State
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of
from holdfast.stores.postgres.locks import BRIEFLY, Held, names_of_jobs
from holdfast.stores.verbs.settle import settle as settle_by_verb

_COMPLETED: Final = Settled(State.COMPLETED)


async def settle(database: Database, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
    answers: dict[int, SettleAnswer] = {}
    plain = [one for one in settlements if one.is_plain_success]
    has_waited = False
    done: set[tuple[int, UUID]] | None = set()
    try:
        if plain:
            done = await _complete(database, plain)
    except Held:
        # The verbs find out which of them it is, and do not wait again.
        has_waited = True
    if done is None:
        if len(plain) == len(settlements):
            return [_COMPLETED] * len(settlements)
        done = {(one.lease.seq, one.lease.token) for one in plain}
    for index, one in enumerate(settlements):
        # Of two settlements of one lease in a call the first wins, and the other is answered below.
        if one.is_plain_success and (one.lease.seq, one.lease.token) in done:
            done.remove((one.lease.seq, one.lease.token))
            answers[index] = _COMPLETED
    rest = {index: one for index, one in enumerate(settlements) if index not in answers}
    if rest:
        settled = await database.transact_each(
            list(rest.values()), settle_by_verb, names_of=_names, may_wait=not has_waited
        )
        answers.update(zip(rest, settled, strict=True))
    return [answers[index] for index in range(len(settlements))]


async def _complete(database: Database, settlements: Sequence[Settlement]) -> set[tuple[int, UUID]] | None:
    """The leases that were valid, and are now settled; None for all of them. ``Held`` where somebody holds one."""
    by_seq = sorted(settlements, key=lambda one: one.lease.seq)
    try:
        (row,) = await database.fetch(
            database.sql["settle"],
            database.now,
            [one.lease.seq for one in by_seq],
            [one.lease.token for one in by_seq],
            [one.outcome.result if isinstance(one.outcome, Completed) else None for one in by_seq],
            BRIEFLY,
        )
    except Unavailable as error:
        if sqlstate_of(error.__cause__ or error) != LOCK_NOT_AVAILABLE:
            raise
        raise Held(has_waited=True) from error
    if row["marked"]:
        await database.tell_now(row["marked"])
    if row["settled"] == len(settlements):
        return None
    return set(zip(row["jobs"] or (), row["tokens"] or (), strict=True))


def _names(settlement: Settlement) -> set[object]:
    spawn = settlement.outcome.spawn if isinstance(settlement.outcome, Completed) else ()
    return {settlement.lease.seq, *names_of_jobs(spawn)}
