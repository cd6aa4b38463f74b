"""submit: plain jobs in one statement, however many; the rest takes the verbs' way.

Of the two statements one is for jobs that differ in ID and payload alone (``JobColumns``): many calls of one function,
or a single job. The other one writes any plain jobs.

Plain is a job without key, dependencies, tags and absolute time (``NewJob.is_plain``). A job whose ID is there already
is left alone: it is the repeat of a submit whose answer was lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from holdfast.core.batches import JobColumns, are_plain, ids_of
from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.errors import HoldfastError
from holdfast.stores.postgres.connections import Executor, executor_of
from holdfast.stores.postgres.database import TRIES, Database
from holdfast.stores.postgres.errors import UNIQUE_VIOLATION, sqlstate_of, translated
from holdfast.stores.postgres.locks import Held, Waiting, names_of_jobs
from holdfast.stores.postgres.rows import alike_insert, each_insert, one_insert
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.verbs.submit import submit as submit_by_verb

MANY_ROWS: Final = "unnest($3::uuid[], $4::bytea[])"
ONE_ROW: Final = "(VALUES ($3::uuid, $4::bytea))"
"""In submit.alike. With arrays, by the way of many, a single submit takes 6 % longer: too near to what is required."""


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    text_for_repeat: str

    @classmethod
    def of(cls, sql: Statements, name: str, *, rows: str = "") -> "_Statement":
        return cls(*(text.replace("{rows}", rows) for text in (sql[name], sql.for_repeat(name))))


class Submits:
    """What the store does with submits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one = _Statement.of(database.sql, "submit.alike", rows=ONE_ROW)
        self._many = _Statement.of(database.sql, "submit.alike", rows=MANY_ROWS)
        self._each = _Statement.of(database.sql, "submit.each")

    async def submit(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        if len(submits) == 1 and len(submits[0].jobs) == 1:
            (job,) = submits[0].jobs
            if job.is_plain and not job.delay_seconds:
                await self._submit_one(job)
                return [(Submitted(job.id),)]
        plain = [one for one in submits if are_plain(one.jobs)]
        if plain:
            await self._submit_plain(plain)
        answers: list[SubmitAnswer] = [tuple(map(Submitted, ids_of(one.jobs))) for one in plain]
        if len(plain) == len(submits):
            return answers
        other = [one for one in submits if not are_plain(one.jobs)]
        accepted = await self._database.transact_each(other, submit_by_verb, names_of=_names)
        self._database.announce(_queues_with_delays(other))
        told = {id(one): answer for one, answer in zip((*plain, *other), (*answers, *accepted), strict=True)}
        return [told[id(one)] for one in submits]

    async def _submit_one(self, job: NewJob) -> None:
        """What a request handler does, one job at a time."""
        is_told = self._database.may_tell()
        await self._insert(self._one, self._database.channel if is_told else None, *one_insert(job))
        # Others hear of a single one by its own commit. That of many takes too long: commits that tell wait in line.
        self._database.announce((job.queue,), is_told=is_told)

    async def _submit_plain(self, submits: Sequence[Submit]) -> None:
        jobs = submits[0].jobs if len(submits) == 1 else [job for one in submits for job in one.jobs]
        alike = JobColumns.of(jobs)
        if alike is None or alike.first.delay_seconds:
            await self._insert(self._each, *each_insert(jobs))
        else:
            await self._insert(self._many, None, *alike_insert(alike))
        self._database.announce({job.queue for job in jobs} if alike is None else (alike.first.queue,))

    async def _insert(self, statement: _Statement, *arguments: Any) -> None:
        """New jobs. Where some are there already this is a repeat of a submit whose answer was lost."""
        sql, now = statement.text, self._database.now

        async def insert(connection: Any) -> None:
            nonlocal sql
            try:
                await connection.fetch(sql, now, *arguments)
            except asyncpg.UniqueViolationError:
                sql = statement.text_for_repeat
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
