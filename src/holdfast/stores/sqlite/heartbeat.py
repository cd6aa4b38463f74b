"""register, heartbeat and leave: a worker is there, its leases go on, it is gone.

A heartbeat is one call, however many jobs the worker holds.
"""

import json
from collections.abc import Sequence
from uuid import UUID

from holdfast.core.commands import Heartbeat, HeartbeatAnswer
from holdfast.core.limits import EXTEND_AFTER_FRACTION
from holdfast.stores.sqlite.rows import duration_microseconds, json_array
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.lease import hand_back_unknown


def register(tx: SQLiteTransaction, worker_id: UUID, *, name: str, queues: Sequence[str], types: Sequence[str]) -> None:
    given = (worker_id.bytes, name, json.dumps(queues), json.dumps(types))
    tx.run("heartbeat.register", *given, tx.now_microseconds)


def heartbeat(tx: SQLiteTransaction, heartbeat: Heartbeat) -> HeartbeatAnswer:
    is_known = tx.run("heartbeat.seen", heartbeat.worker.bytes, tx.now_microseconds) == 1
    tokens = {(lease.seq, lease.token.bytes): lease.token for lease in heartbeat.held}
    rows = tx.rows("heartbeat.held", json_array([seq for seq, _ in tokens])) if tokens else []
    valid = [row for row in rows if row[:2] in tokens]
    extended = []
    for seq, _, _, expires_at, visibility_seconds, lifetime_ends_at in valid:
        # A third of the timeout has to have passed: most heartbeats then write nothing but ``seen_at``.
        if expires_at - tx.now_microseconds < duration_microseconds(visibility_seconds * (1 - EXTEND_AFTER_FRACTION)):
            lease_end = min(tx.now_microseconds + duration_microseconds(visibility_seconds), lifetime_ends_at)
            extended.append((seq, lease_end))
    if extended:
        tx.run_many("heartbeat.extend", extended)
    handed_back = 0
    if is_known:
        handed_back = run_now(
            hand_back_unknown(tx, heartbeat.worker, known=heartbeat.held, claiming=heartbeat.claiming)
        )
    return HeartbeatAnswer(
        is_known=is_known,
        lost=frozenset(tokens.values()) - {tokens[row[:2]] for row in valid},
        cancel_requested=frozenset(tokens[row[:2]] for row in valid if row[2]),
        handed_back=handed_back,
    )


def leave(tx: SQLiteTransaction, worker_id: UUID) -> None:
    run_now(hand_back_unknown(tx, worker_id, known=(), claiming=frozenset()))
    tx.run("heartbeat.leave", worker_id.bytes)
