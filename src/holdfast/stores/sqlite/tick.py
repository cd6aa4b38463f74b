"""tick: its parts. ``due``, delays and backoffs that are over, is a few statements for a batch; the others are verbs.

A RETRYING job that has no attempt left ends instead; where a batch holds one, the whole batch takes the verb's way.
"""

from collections import Counter
from typing import Final

from holdfast.core.commands import Tick, TickReport
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import json_array
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.verbs import tick as verbs


async def due(tx: SQLiteTransaction, tick: Tick) -> TickReport:
    rows = tx.rows("tick.due", tx.now_microseconds, tick.batch)
    if any(is_exhausted for _, is_exhausted, *_ in rows):
        return await verbs.due(tx, tick)
    if rows:
        first = tx.reserve(len(rows))
        ready = [
            (job, place, queue, priority, *carried[:5], tx.now_microseconds, *carried[5:])
            for place, (_, _, job, queue, priority, *carried) in enumerate(rows, start=first)
        ]
        tx.run("write.leave_waiting", json_array([row[0] for row in ready]))
        tx.run_many("write.ready", ready)
        for (queue, state), jobs in Counter((row[3], row[0]) for row in rows).items():
            tx.tally[queue, state] -= jobs
            tx.tally[queue, State.SCHEDULED] += jobs
            tx.awakened.add(queue)
    return TickReport(due=len(rows), has_more=len(rows) == tick.batch)


PARTS: Final = tuple(due if part is verbs.due else part for part in verbs.PARTS)
