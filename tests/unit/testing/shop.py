"""The program that is tested here as its owner would test it: its database must never be touched."""

import os
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast import Context, Holdfast, Middleware, PermanentError, Retry, TemporaryError, Workflow, chain
from holdfast.core.commands import Outcome
from holdfast.worker.middleware import Execute, Execution

URL = "sqlite:////nowhere/that/exists/shop.db"


class Counting(Middleware):
    def __init__(self) -> None:
        self.executed = 0

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        self.executed += 1
        return await proceed()


counting = Counting()
app = Holdfast(URL, middleware=[counting])
outbox: list[Any] = []
"""What handlers did. Emptied before each test."""
limit = threading.local()


@dataclass
class Parcel:
    weight: float
    to: str = "home"


@app.job(queue="mails")
async def send_mail(to: str, subject: str = "Hello") -> str:
    outbox.append((to, subject))
    return f"mail to {to}"


@app.job
async def ship(parcel: Parcel, at: datetime | None = None, stops: list[str] | None = None) -> None:
    outbox.append(parcel)


@app.job(retry=Retry(max_attempts=3))
async def charge(ctx: Context, amount: int, failures: int = 99) -> int:
    if ctx.attempt <= failures:
        raise TemporaryError(f"the bank is away ({ctx.attempt})")
    outbox.append(amount)
    return amount


@app.job
async def refuse(reason: str) -> None:
    raise PermanentError(reason)


@app.job
def add(a: int, b: int) -> int:
    """A plain function, which says where it ran."""
    outbox.append((os.getpid(), threading.get_ident()))
    return a + b


@app.job
def remind_later(to: str) -> None:
    send_mail.options(delay=3600).submit_sync(to, "Remember")


@app.job(isolation="process")
def in_a_process(a: int, b: int) -> int:
    outbox.append((os.getpid(), threading.get_ident()))
    if b == 0:
        raise ZeroDivisionError("b is 0")
    return os.getpid()


@app.job
async def order(ctx: Context, items: int) -> int:
    for number in range(items):
        ctx.spawn(send_mail.call(f"item-{number}"))
    return items


@app.job
async def total(ctx: Context) -> int:
    return sum(ctx.results)


@app.job
async def ask(to: str) -> str:
    """Waits for another job while it runs itself."""
    return await (await send_mail.submit(to)).result()


@app.job
async def repeat(times: int) -> None: ...


@app.cron("*/5 * * * *")
async def clean_up() -> None:
    outbox.append("cleaned")


async def signup(address: str) -> None:
    await send_mail.submit(address, subject="Welcome")
    await send_mail.options(delay=86400).submit(address, subject="How is it?")


def signup_sync(address: str) -> None:
    send_mail.submit_sync(address, subject="Welcome")


def billing(amount: int) -> Workflow[int]:
    return chain(charge.call(amount, failures=1), total.call())
