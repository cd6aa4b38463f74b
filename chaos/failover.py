"""The primary dies for good and its standby takes over, while everything runs.

FAILOVER-1. The standby is asynchronous and held back: what was committed since then is lost, acknowledged or not. When
    that was is written down, so that the checker can tell what may be lost from what may not.
FAILOVER-2. The standby is synchronous: nothing that was acknowledged is lost.
FAILOVER-3. A strike ends when there is a standby again, a fresh copy of the new primary where the old one was.
"""

import asyncio
import time
from random import Random
from typing import Final

from chaos.history import Failover, Trouble
from chaos.world import World
from tests.servers import PostgresPair

HELD_LEASES: Final = 5
PATIENCE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
HELD_BACK_SECONDS: Final = (0.2, 1.0)
SYNCHRONOUS_SECONDS: Final = (0.5, 2.0)


async def fail_over(world: World, rng: Random) -> str:
    async with world.pair_turn:
        await _until_held(world)
        held_at = await asyncio.to_thread(_pair(world).hold_back)
        seconds = rng.uniform(*HELD_BACK_SECONDS)
        await asyncio.sleep(seconds)
        leases = await _fail_over(world, "failover", held_at=held_at)
        return f"{leases} leases, the standby was {seconds:.1f} s behind"


async def fail_over_synchronously(world: World, rng: Random) -> str:
    async with world.pair_turn:
        await _until_held(world)
        await asyncio.to_thread(_pair(world).make_synchronous)
        seconds = rng.uniform(*SYNCHRONOUS_SECONDS)
        await asyncio.sleep(seconds)
        leases = await _fail_over(world, "failover-sync", held_at=None)
        return f"{leases} leases, after {seconds:.1f} s with a synchronous standby"


def _pair(world: World) -> PostgresPair:
    assert world.pair is not None
    return world.pair


async def _fail_over(world: World, fault: str, *, held_at: float | None) -> int:
    """``held_at`` is None at a synchronous standby. Returns how many leases were held."""
    pair = _pair(world)
    leases = await world.count_held()
    killed_at = time.monotonic()
    try:
        with world.excuses.away():
            await asyncio.to_thread(pair.kill_primary)
            await asyncio.to_thread(pair.promote)
    finally:
        promoted_at = time.monotonic()
        world.troubles.append(Trouble(fault=fault, began_at=killed_at, ended_at=promoted_at, is_upset=True))
        world.failovers.append(
            Failover(
                held_at=killed_at if held_at is None else held_at,
                promoted_at=promoted_at,
                is_synchronous=held_at is None,
            )
        )
    await asyncio.to_thread(pair.build_standby)
    return leases


async def _until_held(world: World) -> None:
    """The strike before this one may have been a moment ago: there must be something to lose again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await world.count_held() < HELD_LEASES:  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(POLL_SECONDS)
