"""The sample app that ``holdfast dev`` runs, and its load: a little of everything that jobs do.

Read it as an example. It keeps its jobs where $HOLDFAST_URL says.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from holdfast import Context, Holdfast, PermanentError, Priority, Retry, TemporaryError, Unavailable, chain, fan_in

app: Final = Holdfast()

QUICK_RETRY: Final = Retry(max_attempts=4, initial_delay=1.0, max_delay=4.0)


@app.job
async def greet(name: str) -> str:
    """The quick one: nearly all the time is the queue's own."""
    return f"Hello, {name}"


@app.job(queue="media")
async def resize(ctx: Context, path: str, width: int = 800) -> dict[str, Any]:
    """A slow one that says how far it is."""
    for step in range(10):
        await asyncio.sleep(random.uniform(0.1, 0.3))
        ctx.progress((step + 1) * 10, f"row {(step + 1) * width // 10} of {width}")
    ctx.log.info("resized %s to %d", path, width)
    return {"path": path, "width": width}


@app.job(queue="payments", priority=Priority.HIGH, retry=QUICK_RETRY)
async def charge(order: int) -> str:
    """The bank is away now and then: a temporary failure is tried again."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    if random.random() < 0.3:
        raise TemporaryError(f"the bank did not answer for order {order}")
    return f"receipt {order}"


@app.job(queue="payments")
async def refund(order: int) -> None:
    """A permanent failure is not tried again: FAILED."""
    raise PermanentError(f"order {order} was never paid", code="not_paid")


@app.job(retry=Retry(max_attempts=2, initial_delay=1.0))
async def notify(url: str) -> None:
    """Nobody is there, however often one tries: DEAD_LETTER. Bring it back with ``holdfast replay``."""
    raise ConnectionError(f"{url} does not answer")


@app.job(queue="media")
def count_words(text: str) -> int:
    """A plain function: it runs in a thread and may block."""
    time.sleep(random.uniform(0.1, 0.5))
    return len(text.split())


@app.job(queue="media", isolation="process", timeout=20)
def find_prime(above: int) -> int:
    """Busy arithmetic: in a process of its own it keeps nobody from working, and can be killed at its timeout."""
    number = above + 1
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


@app.cron("*/10 * * * * *")
async def tidy_up() -> None:
    """Every ten seconds, once, however many workers there are."""
    await asyncio.sleep(0.1)


@app.job
async def fetch(page: str) -> str:
    await asyncio.sleep(random.uniform(0.1, 0.4))
    return f"the text of {page}"


@app.job
async def summarise(ctx: Context) -> str:
    """The end of a workflow reads what it waited for."""
    return f"{len(ctx.results)} pages: {ctx.results}"


@app.job
async def publish(ctx: Context) -> str:
    return f"published {ctx.results[0]}"


async def submit_report() -> None:
    """Three pages are fetched side by side, then summarised, then published: one workflow, accepted as a whole."""
    pages = [fetch.call(f"page {random.randrange(100)}") for _ in range(3)]
    await chain(fan_in(*pages, into=summarise.call()), publish.call()).submit()


async def submit_later() -> None:
    await greet.options(delay=random.uniform(2, 5), tags={"kind": "later"}).submit("tomorrow")


LOAD: Final[tuple[tuple[int, Callable[[], Awaitable[Any]]], ...]] = (
    (50, lambda: greet.submit(random.choice(("Ada", "Grace", "Edsger", "Barbara")))),
    (12, lambda: resize.submit(f"photo-{random.randrange(1000)}.png", random.choice((300, 800)))),
    (14, lambda: charge.submit(random.randrange(10_000))),
    (8, lambda: count_words.submit("the quick brown fox jumps over the lazy dog")),
    (5, lambda: find_prime.submit(random.randrange(10**9, 10**10))),
    (4, submit_report),
    (5, submit_later),
    (1, lambda: refund.submit(random.randrange(10_000))),
    (1, lambda: notify.submit("https://example.com/hook")),
)
"""How often, out of a hundred, and what."""


async def submit_load(*, per_second: float) -> None:
    """Submit forever, at random intervals. One of everything comes first, so that there is something to see."""
    for _, submit in LOAD:
        await submit()
    weights = [weight for weight, _ in LOAD]
    while True:
        await asyncio.sleep(random.expovariate(per_second))
        ((_, submit),) = random.choices(LOAD, weights)
        # A database that is away will be back; a load is no reason to end.
        with suppress(Unavailable):
            await submit()
