"""settle: plain successes in four statements for any number of them; the rest takes the verbs' way.

Plain is ``Completed`` without children and progress, under a lease whose token is the job's. Whatever else there is,
and whatever did not match, goes through the verbs in the same transaction.
"""

import json
from collections.abc import Sequence
from typing import Final

from holdfast.core.commands import Completed, SettleAnswer, Settled, Settlement
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import json_array
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.settle import settle as settle_by_verb

LARGE_RESULT_BYTES: Final = 65_536
"""A larger one has a statement of its own: all of a batch in one value could be more than SQLite takes."""
_COMPLETED: Final = Settled(State.COMPLETED)


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
    seqs = json_array(plain)
    tokens = b"".join([settlements[index].lease.token.bytes for index in plain.values()])
    counts = tx.rows("settle.count", seqs, tokens)
    if sum(jobs for _, jobs, _ in counts) < len(plain):
        plain = {seq: plain[seq] for (seq,) in tx.rows("settle.find", seqs, tokens)}
        if not plain:
            return set()
        seqs = json_array(plain)
    _end(tx, seqs, [(seq, _result(settlements[index])) for seq, index in plain.items()])
    tx.run("settle.leave", seqs)
    for queue, jobs, _ in counts:
        tx.tally[queue, State.RUNNING] -= jobs
        tx.tally[queue, State.COMPLETED] += jobs
    if any(waited_for for _, _, waited_for in counts):
        run_now(tx.mark([seq for (seq,) in tx.rows("settle.waited_for", seqs)]))
    return set(plain.values())


def _end(tx: SQLiteTransaction, seqs: str, results: Sequence[tuple[int, bytes | None]]) -> None:
    first = results[0][1]
    if all(result == first for _, result in results):
        tx.run("settle.end", seqs, tx.now_microseconds, first)
        return
    spans: list[tuple[int, int | None, int | None]] = []
    joined = bytearray()
    for seq, result in results:
        if result is None:
            spans.append((seq, None, None))
        elif len(result) > LARGE_RESULT_BYTES:
            tx.run("settle.end", json_array([seq]), tx.now_microseconds, result)
        else:
            spans.append((seq, len(joined) + 1, len(result)))
            joined += result
    tx.run("settle.end_each", json.dumps(spans), tx.now_microseconds, joined)


def _result(settlement: Settlement) -> bytes | None:
    assert isinstance(settlement.outcome, Completed)
    return settlement.outcome.result
