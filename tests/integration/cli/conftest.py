"""A database file of the test's own, and one with a job in every state."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.stores.postgres import migrate
from holdfast.testing.factories import job_in_state
from holdfast.wiring import create_store

Answer = TypeVar("Answer")
Do = Callable[[Callable[[Store], Awaitable[Answer]]], Answer]


def with_store(url: str, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
    """Do something to the database as another program would."""

    async def run() -> Answer:
        store = create_store(url)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a SQLite file with Holdfast's tables and nothing in them."""

    async def nothing(_: Store) -> None:
        return None

    made = f"sqlite:///{tmp_path / 'jobs.db'}"
    with_store(made, nothing)
    return made


@pytest.fixture
def migrated_url(postgres_url: str) -> str:
    """Of a PostgreSQL database with Holdfast's tables and nothing in them."""
    asyncio.run(migrate.upgrade(postgres_url))
    return postgres_url


async def fill(store: Store) -> dict[State, UUID]:
    """A job in every state, each of type ``resize`` in a queue named after the state."""
    return {
        state: await job_in_state(
            store, state, type="resize", queue=state.lower(), payload=Payload.of({"path": "a.png", "width": 300})
        )
        for state in State
    }


@pytest.fixture
def filled(url: str) -> dict[State, UUID]:
    return with_store(url, fill)
