"""submit: plain jobs in one statement, however many; the rest takes the verbs' way.

Plain is a job without key, dependencies, tags and absolute time (``NewJob.is_plain``). A job whose ID is there already
is left alone: it is the repeat of a submit whose answer was lost.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from holdfast.core import limits
from holdfast.core.batches import JobsInParts, are_plain, ids_of, queues_of
from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.stores.postgres.connections import Executor, executor_of
from holdfast.stores.postgres.database import TRIES, Database
from holdfast.stores.postgres.errors import UNIQUE_VIOLATION, sqlstate_of, translated
from holdfast.stores.postgres.locks import Held, Waiting, names_of_jobs
from holdfast.stores.postgres.rows import one_row, plain_insert
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.stores.verbs.submit import submit as submit_by_verb


class Unusual(Exception):
    """A submit cannot be written part by part."""


class Submits:
    """What the store does with submits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        if len(submits) == 1 and isinstance(submits[0].jobs, JobsInParts):
            if await self._submit_parts(submits[0].jobs):
                return [tuple(map(Submitted, ids_of(submits[0].jobs)))]
        elif len(submits) == 1 and len(submits[0].jobs) == 1:
            return [await self._submit_single(submits[0])]
        return await self._submit_many(submits)

    async def _submit_single(self, submit: Submit) -> SubmitAnswer:
        """What a request handler does, one job at a time: nothing here but the statement."""
        (job,) = submit.jobs
        if not job.is_plain or job.delay_seconds:
            (answer,) = await self._submit_many([submit])
            return answer
        is_told = self._database.may_tell()
        await self._insert("submit.one", *one_row(job), self._database.channel if is_told else None)
        self._database.announce((job.queue,), is_told=is_told)
        return (Submitted(job.id),)

    async def _submit_many(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        answers: dict[int, SubmitAnswer] = {}
        plain: dict[int, Submit] = {}
        other: dict[int, Submit] = {}
        for index, one in enumerate(submits):
            (plain if are_plain(one.jobs) else other)[index] = one
        if plain:
            first = next(iter(plain.values())).jobs
            await self._submit_plain(first if len(plain) == 1 else [job for one in plain.values() for job in one.jobs])
            answers.update((i, tuple(map(Submitted, ids_of(one.jobs)))) for i, one in plain.items())
        if other:
            accepted = await self._database.transact_each(list(other.values()), submit_by_verb, names_of=_names)
            self._database.announce(_queues_with_delays(other.values()))
            answers.update(zip(other, accepted, strict=True))
        return [answers[index] for index in range(len(submits))]

    async def _submit_parts(self, jobs: JobsInParts) -> bool:
        """Part by part in one transaction, each while the next is made.

        False where one is not plain, not valid or there already, or where they are too many: nothing is written, and
        the usual way finds out what is the matter.
        """

        async def submit_parts(connection: Any) -> bool:
            try:
                await self._database.transact_once(connection, lambda tx: self._write_parts(connection, jobs, tx))
            except (InvalidInput, Unusual, asyncpg.UniqueViolationError):
                return False
            return True

        return await self._database.use(submit_parts)

    async def _write_parts(self, connection: Any, jobs: JobsInParts, tx: PostgresTransaction) -> None:
        under_way: asyncio.Task[Any] | None = None
        written = 0
        try:
            for part in jobs.parts():
                written += len(part)
                if not are_plain(part) or written > limits.MAX_SUBMIT_JOBS:
                    raise Unusual
                tx.awakened |= queues_of(part)
                if under_way is not None:
                    await under_way
                name, arguments = plain_insert(part)
                under_way = asyncio.create_task(connection.fetch(self._database.sql[name], tx.now, *arguments))
                # It goes out now, and the database is busy while the next part is made.
                await asyncio.sleep(0)
            if under_way is not None:
                await under_way
        finally:
            if under_way is not None and not under_way.done():
                await asyncio.wait([under_way])

    async def _submit_plain(self, jobs: Sequence[NewJob]) -> None:
        name, arguments = plain_insert(jobs)
        await self._insert(name, *arguments)
        self._database.announce(queues_of(jobs))

    async def _insert(self, name: str, *arguments: Any) -> None:
        """New jobs. Where some are there already this is a repeat of a submit whose answer was lost."""
        sql, now = self._database.sql[name], self._database.now

        async def insert(connection: Any) -> None:
            nonlocal sql
            try:
                await connection.fetch(sql, now, *arguments)
            except asyncpg.UniqueViolationError:
                sql = self._database.sql.for_repeat(name)
                raise

        await self._database.use(insert)

    async def submit_within(self, submits: Sequence[Submit], connection: Any) -> list[SubmitAnswer]:
        """In the caller's transaction: refusals raise, and leave it as it was."""
        with translated():
            executor = await executor_of(connection)
            for tries_left in reversed(range(TRIES)):
                try:
                    return await self._submit_in_savepoint(executor, submits)
                except Held:
                    # A job moved while it was to be locked: what is locked by now is let go, and locked again in order.
                    if not tries_left:
                        raise
                except Exception as error:
                    # A repeat elsewhere was first: by now its jobs can be seen.
                    if not tries_left or sqlstate_of(error) != UNIQUE_VIOLATION:
                        raise
        raise AssertionError

    async def _submit_in_savepoint(self, executor: Executor, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        await executor.fetch("SAVEPOINT holdfast_submit")
        try:
            answers = await self._submit_by(executor, submits)
        except BaseException:
            await executor.fetch("ROLLBACK TO SAVEPOINT holdfast_submit")
            await executor.fetch("RELEASE SAVEPOINT holdfast_submit")
            raise
        await executor.fetch("RELEASE SAVEPOINT holdfast_submit")
        return answers

    async def _submit_by(self, executor: Executor, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        now = self._database.now
        if now is None:
            (row,) = await executor.fetch(self._database.sql["connection.now"])
            now = row["now"]
        tx = self._database.transaction(executor, now, Waiting(is_callers=True))
        answers = await submit_by_verb(tx, submits)
        for answer in answers:
            if isinstance(answer, HoldfastError):
                raise answer
        # The only NOTIFY inside a write transaction.
        await self._database.notify_within(executor, tx.awakened | _queues_with_delays(submits))
        return answers


def _names(submit: Submit) -> set[object]:
    return names_of_jobs(submit.jobs)


def _queues_with_delays(submits: Iterable[Submit]) -> set[str]:
    """Who waits there for work learns that there will be some: it looks up when."""
    return {job.queue for one in submits for job in one.jobs if job.delay_seconds or job.run_at is not None}
