"""One role as a process: ``python -m holdfast.designs.services.run gateway --listen 127.0.0.1:50051 --job … …``

When it serves it says so in one line on standard output, ``{"event": "ready", "role": "gateway", "address": "…"}``; it
logs JSON Lines to standard error. SIGTERM and SIGINT stop it cleanly; a second one ends the calls in flight too.
Exit status 0; 2 where its settings, or its address, will not do.
"""

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Sequence
from typing import Final

from holdfast.core.errors import ConfigError
from holdfast.designs.services import design_a, design_b, settings
from holdfast.designs.services.part import Part
from holdfast.designs.services.settings import Settings
from holdfast.rpc import limits
from holdfast.telemetry import configure

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
YOUNG_OBJECTS: Final = 50_000
OLDER_ROUNDS: Final = 50


async def start(given: Settings) -> Part:
    match given.role:
        case "job":
            return await design_a.start_job(given.listen)
        case "queue":
            return await design_a.start_queue(given.listen)
        case "result":
            return await design_a.start_result(given.listen)
        case "gateway":
            return await design_a.start_gateway(given.listen, job=given.job, queue=given.queue, result=given.result)
        case "coordinator":
            return await design_a.start_coordinator(given.listen, job=given.job, queue=given.queue, result=given.result)
        case "worker":
            return await design_a.start_worker(
                given.listen, coordinator=given.coordinator, worker_id=given.worker_id, slots=given.slots
            )
        case "node":
            return await design_b.start_node(
                given.listen,
                index=given.index,
                addresses=given.nodes,
                worker_id=given.worker_id,
                slots=given.slots,
            )
    raise ConfigError(f"there is no role {given.role!r}; give one of {', '.join(settings.ROLES)}")


async def serve(given: Settings) -> None:
    """Until a signal comes."""
    asked, hurried = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (hurried if asked.is_set() else asked).set()

    for number in STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    part = await start(given)
    _collect_seldom()
    _say({"event": "ready", "role": part.role, "address": part.address})
    await asked.wait()
    stopping = asyncio.ensure_future(part.stop(limits.STOP_GRACE_SECONDS))
    waiting = asyncio.ensure_future(hurried.wait())
    await asyncio.wait((stopping, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not stopping.done():
        await part.server.stop(0)
        stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)


def run(given: Settings) -> int:
    configure(service=given.role, level=given.log_level)
    try:
        asyncio.run(serve(given))
    except ConfigError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        return 2
    return 0


def main(arguments: Sequence[str]) -> int:
    try:
        given = settings.read(arguments)
    except ConfigError as error:
        sys.stderr.write(f"holdfast: {error}\n")
        return 2
    return run(given)


def _say(line: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _collect_seldom() -> None:
    """Tables of jobs are large and hold no cycles: looking through them for some would stop every call meanwhile."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, OLDER_ROUNDS, OLDER_ROUNDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
