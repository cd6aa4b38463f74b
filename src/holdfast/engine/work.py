"""What workers tell a store, checked first: their settings, and what handlers and middleware said.

A worker speaks to its store claim by claim; of the verbs that take what somebody said, it uses these functions and not
the store's own. So stores are told nothing that ``core/checks.py`` refuses (PORT-5).

WORK-1. What is refused of one item disturbs no other: ``settle`` and ``fire`` answer item by item.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from holdfast.core.checks import (
    require_valid_claim,
    require_valid_claim_ids,
    require_valid_fire,
    require_valid_fires,
    require_valid_report,
    require_valid_settlement,
    require_valid_tick,
    require_valid_worker,
)
from holdfast.core.commands import (
    Claim,
    ClaimIdAnswer,
    ClaimIds,
    Fire,
    FireAnswer,
    Report,
    ReportAnswer,
    SettleAnswer,
    Settlement,
    Tick,
    TickReport,
)
from holdfast.core.errors import InvalidInput
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Store

T = TypeVar("T")


async def register(
    store: Store, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
) -> None:
    require_valid_worker(name, queues=queues, types=types)
    await store.register(worker_id, name=name, queues=queues, types=types)


async def claim(store: Store, claim: Claim) -> list[ClaimedJob]:
    require_valid_claim(claim)
    return await store.claim(claim)


async def claim_ids(store: Store, claim: ClaimIds) -> list[ClaimIdAnswer]:
    require_valid_claim_ids(claim)
    return await store.claim_ids(claim)


async def settle(store: Store, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
    good, refused = _apart(settlements, _require_valid_settlement)
    if not refused:
        return await store.settle(settlements)
    answers = iter(await store.settle(good) if good else ())
    return [refused[index] if index in refused else next(answers) for index in range(len(settlements))]


async def report(store: Store, reports: Sequence[Report]) -> list[ReportAnswer]:
    for one in reports:
        require_valid_report(one)
    return await store.report(reports)


async def fire(store: Store, fires: Sequence[Fire]) -> list[FireAnswer]:
    require_valid_fires(fires)
    good, refused = _apart(fires, require_valid_fire)
    answers = iter(await store.fire(good) if good else ())
    return [refused[index] if index in refused else next(answers) for index in range(len(fires))]


async def tick(store: Store, tick: Tick) -> TickReport:
    require_valid_tick(tick)
    return await store.tick(tick)


def _require_valid_settlement(_: int, settlement: Settlement) -> None:
    if not settlement.is_plain_success:
        require_valid_settlement(settlement)


def _apart(items: Sequence[T], check: Callable[[int, T], object]) -> tuple[list[T], dict[int, InvalidInput]]:
    good: list[T] = []
    refused: dict[int, InvalidInput] = {}
    for index, one in enumerate(items):
        try:
            check(index, one)
        except InvalidInput as refusal:
            refused[index] = refusal
        else:
            good.append(one)
    return good, refused
