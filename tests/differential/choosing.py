"""Choose the seeds of the short run: few streams that together meet everything, found with the model alone.

    python -m tests.differential.choosing

prints them for ``test_streams.SHORT_SEEDS``. Needed again only when commands, streams or the coverage table change; a
short run whose seeds no longer suffice goes on with others, and is only slower.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from holdfast.testing.clock import ManualClock
from tests.differential.coverage import EXPECTED, Coverage
from tests.differential.driver import run_stream, seeded_stream

CANDIDATES: Final = 600
SCRIPTS: Final = 40


@asynccontextmanager
async def no_stores() -> AsyncIterator[tuple[ManualClock, dict[str, Any]]]:
    yield ManualClock(), {}


async def met_by(seed: int) -> tuple[frozenset[str], int]:
    coverage = Coverage()
    steps = await run_stream(seeded_stream(seed, scripts=SCRIPTS), no_stores, coverage)
    return EXPECTED & coverage.seen.keys(), steps


async def choose() -> list[int]:
    """Greedily: next the stream that meets the most that is new for its length."""
    met = {seed: await met_by(seed) for seed in range(CANDIDATES)}
    chosen: list[int] = []
    missing = set(EXPECTED)
    while missing:
        best = max(met, key=lambda seed: len(met[seed][0] & missing) / met[seed][1])
        if not met[best][0] & missing:
            raise SystemExit(f"met by no candidate: {sorted(missing)}")
        chosen.append(best)
        missing -= met[best][0]
    sys.stdout.write(f"{tuple(chosen)}  # {sum(met[seed][1] for seed in chosen)} steps\n")
    return chosen


if __name__ == "__main__":
    asyncio.run(choose())
