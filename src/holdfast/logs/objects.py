"""The LogStore port over object storage: one adapter for a folder, S3-compatible storage and memory.

An attempt's log is the object ``<day>/<job>/<attempt>-<attempt ID>.jsonl``, where the day is the one, in UTC, on which
the job was created. It may be used from any number of loops and threads at once: the library's work is done elsewhere.

OBJECT-1. A write replaces the object as a whole; a reader sees the old or the new one, never a part.
OBJECT-2. Nothing here blocks the loop.
OBJECT-3. What is not ours in the same place (other names, other days) is neither read nor removed.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Final
from uuid import UUID

import obstore
from obstore.store import ObjectStore

from holdfast.core.job import AttemptLog, LogKey
from holdfast.logs.errors import ERRORS, translate
from holdfast.logs.places import find_place

MAX_READS_AT_ONCE: Final = 16
REMOVED_AT_ONCE: Final = 1000

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAME: Final = re.compile(r"(?P<attempt>[0-9]{1,9})-(?P<attempt_id>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl")
_FIRST_TIME: Final = re.compile(rb'\{"ts_ms":(\d{1,18})')


class ObjectLogStore:
    def __init__(self, url: str) -> None:
        self.url = url
        with self._translated():
            self._place = find_place(url)

    async def open(self) -> None:
        with self._translated():
            await self._place.check()

    async def close(self) -> None:
        """Nothing is held."""

    async def write(self, entry: LogKey, data: bytes) -> None:
        with self._translated():
            store = self._place.store
            if store is None:
                store = await asyncio.to_thread(self._place.for_writing)
            await obstore.put_async(store, _path(entry), data)

    async def read(self, job_id: UUID, *, created_at: datetime) -> list[AttemptLog]:
        with self._translated():
            store = self._place.store or await asyncio.to_thread(self._place.for_reading)
            if store is None:
                return []
            paths = [path async for chunk in _listed(store, _folder(job_id, created_at)) for path in chunk]
            gate = asyncio.Semaphore(MAX_READS_AT_ONCE)
            logs = await asyncio.gather(*(_read(store, path, gate) for path in paths))
        return _oldest_first([log for log in logs if log is not None])

    async def remove_before(self, day: date) -> int:
        removed = 0
        with self._translated():
            store = self._place.store or await asyncio.to_thread(self._place.for_reading)
            if store is None:
                return 0
            found = await obstore.list_with_delimiter_async(store)
            for folder in sorted(found["common_prefixes"]):
                if _is_before(folder, day):
                    async for paths in _listed(store, folder):
                        removed += await _remove(store, paths)
        return removed

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            raise translate(error, self.url) from error


def _path(entry: LogKey) -> str:
    return f"{_folder(entry.job_id, entry.created_at)}/{entry.attempt}-{entry.attempt_id}.jsonl"


def _folder(job_id: UUID, created_at: datetime) -> str:
    return f"{created_at.astimezone(UTC):%Y-%m-%d}/{job_id}"


def _is_before(folder: str, day: date) -> bool:
    return _DAY.fullmatch(folder) is not None and folder < f"{day:%Y-%m-%d}"


async def _listed(store: ObjectStore, folder: str) -> AsyncIterator[list[str]]:
    async for found in obstore.list(store, f"{folder}/", chunk_size=REMOVED_AT_ONCE):
        yield [entry["path"] for entry in found if _NAME.fullmatch(entry["path"].rpartition("/")[2])]


async def _read(store: ObjectStore, path: str, gate: asyncio.Semaphore) -> AttemptLog | None:
    name = _NAME.fullmatch(path.rpartition("/")[2])
    assert name is not None
    async with gate:
        try:
            found = await obstore.get_async(store, path)
            data = bytes(await found.bytes_async())
        except FileNotFoundError:
            return None  # removed since it was listed
    return AttemptLog(attempt=int(name["attempt"]), attempt_id=UUID(name["attempt_id"]), data=data)


def _oldest_first(logs: list[AttemptLog]) -> list[AttemptLog]:
    """By number; after a replay or a hand-back, when numbers come again, by the time of the first line."""
    numbers = {log.attempt for log in logs}
    if len(numbers) == len(logs):
        return sorted(logs, key=lambda log: log.attempt)
    return sorted(logs, key=lambda log: (_began_ms(log), log.attempt))


def _began_ms(log: AttemptLog) -> int:
    found = _FIRST_TIME.match(log.data)
    return int(found[1]) if found else 0


async def _remove(store: ObjectStore, paths: Sequence[str]) -> int:
    try:
        await obstore.delete_async(store, paths)
        return len(paths)
    except FileNotFoundError:
        # Somebody else removes the same day: one by one, then. What the two removed is counted by neither.
        return sum([await _remove_one(store, path) for path in paths])


async def _remove_one(store: ObjectStore, path: str) -> int:
    try:
        await obstore.delete_async(store, path)
    except FileNotFoundError:
        return 0
    return 1
