"""settle: plain successes in three statements for any number of them; the rest takes the verbs' way.

Plain is ``Completed`` without children and progress, under a lease whose token is the job's. Whatever else there is,
and whatever did not match, goes through the verbs in the same transaction.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from holdfast.core.commands import Completed, SettleAnswer, Settled, Settlement
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import Row, json_array
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.change import propagate
from holdfast.stores.verbs.settle import settle as settle_by_verb

_COMPLETED: Final = Settled(State.COMPLETED)
_CARRIED: Final = slice(0, 10)
"""Of a row of [find]: what stays known of the job after its end."""


def settle(tx: SQLiteTransaction, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
    plain: dict[int, int] = {}
    for index, one in enumerate(settlements):
        if one.is_plain_success:
            # The first of several for one job; the others are repeats, or stale.
            plain.setdefault(one.lease.seq, index)
    completed = _complete(tx, settlements, plain) if plain else set()
    if len(completed) == len(settlements):
        return [_COMPLETED] * len(settlements)
    rest = [one for index, one in enumerate(settlements) if index not in completed]
    by_verb = iter(run_now(settle_by_verb(tx, rest)))
    return [_COMPLETED if index in completed else next(by_verb) for index in range(len(settlements))]


def _complete(tx: SQLiteTransaction, settlements: Sequence[Settlement], plain: dict[int, int]) -> set[int]:
    """Complete those whose token matches; returns their positions."""
    ended: list[Row] = []
    queues: list[str] = []
    completed: set[int] = set()
    now = tx.now_microseconds
    for row in tx.rows("settle.find", json_array(plain)):
        index = plain[row[0]]
        one = settlements[index]
        if row[1] == one.lease.token.bytes:
            assert isinstance(one.outcome, Completed)
            ended.append((*row[_CARRIED], now, one.outcome.result))
            queues.append(row[-1])
            completed.add(index)
    for queue, jobs in Counter(queues).items():
        tx.tally[queue, State.RUNNING] -= jobs
        tx.tally[queue, State.COMPLETED] += jobs
    if ended:
        tx.run("settle.leave", json_array([row[0] for row in ended]))
        tx.run_many("settle.end", ended)
        _tell_dependents(tx, ended)
    return completed


def _tell_dependents(tx: SQLiteTransaction, ended: Sequence[Row]) -> None:
    marks = [(row[0],) for row in ended if row[2]]
    if marks:
        tx.run_many("edges.mark", marks)
        run_now(propagate(tx))
