"""register, heartbeat and leave: a worker is there, its leases go on, it is gone.

A heartbeat is one statement, however many jobs the worker holds.
"""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core.commands import Heartbeat, HeartbeatAnswer
from holdfast.core.limits import EXTEND_AFTER_FRACTION
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.stores.verbs.lease import hand_back_unknown


async def register(
    database: Database, worker_id: UUID, *, name: str, queues: Sequence[str], types: Sequence[str]
) -> None:
    given = (worker_id, name, database.now, list(queues), list(types))
    await database.fetch(database.sql["heartbeat.register"], *given)


async def heartbeat(database: Database, heartbeat: Heartbeat) -> HeartbeatAnswer:
    unknown = database.sweeps.unknown
    rows = await database.fetch(
        database.sql["heartbeat.extend"],
        database.now,
        heartbeat.worker,
        [lease.seq for lease in heartbeat.held],
        [lease.token for lease in heartbeat.held],
        1 - EXTEND_AFTER_FRACTION,
        list(heartbeat.claiming),
        unknown.is_due(heartbeat.worker),
    )
    is_known = rows[0]["known"] > 0
    valid = {row["token"] for row in rows if row["token"] is not None}
    handed_back = 0
    owned = rows[0]["owned"]
    if owned is not None:
        unknown.done(heartbeat.worker)
    if is_known and owned is not None and owned > len(valid - heartbeat.claiming):
        handed_back = await database.transact(
            lambda tx: hand_back_unknown(tx, heartbeat.worker, known=heartbeat.held, claiming=heartbeat.claiming),
            may_wait=False,
        )
    return HeartbeatAnswer(
        is_known=is_known,
        lost=frozenset(lease.token for lease in heartbeat.held) - valid,
        cancel_requested=frozenset(row["token"] for row in rows if row["cancel_requested"]),
        handed_back=handed_back,
    )


async def leave(database: Database, worker_id: UUID) -> None:
    async def hand_back(tx: PostgresTransaction) -> None:
        await hand_back_unknown(tx, worker_id, known=(), claiming=frozenset())

    await database.transact(hand_back, may_wait=False)
    await database.fetch(database.sql["heartbeat.leave"], worker_id)
    # What a claim got that found the worker still there. One that is later still is for tick.
    await database.transact(hand_back, may_wait=False)
