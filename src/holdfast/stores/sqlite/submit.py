"""submit: plain jobs in a few statements for any number of them; the rest takes the verbs' way.

Plain is a submit whose jobs have no key, no dependencies, no tags and no absolute time. Its answer does not depend on
what the database holds: a job whose id is already there is left as it is (the repeat of a lost answer).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import duration_microseconds, plain_job_row
from holdfast.stores.sqlite.statements import SQL
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.submit import submit as submit_by_verb


def submit(tx: SQLiteTransaction, submits: Sequence[Submit]) -> list[SubmitAnswer]:
    """Runs of plain and of other submits in the order given, which is the order of their places."""
    answers: list[SubmitAnswer] = []
    for are_plain, run in groupby(submits, key=is_plain):
        together = list(run)
        if are_plain:
            _insert(tx, [job for one in together for job in one.jobs])
            answers += _accepted(together)
        else:
            answers += run_now(submit_by_verb(tx, together))
    return answers


def submit_together(tx: SQLiteTransaction, calls: Sequence[Sequence[Submit]]) -> list[list[SubmitAnswer]]:
    """The plain submits of several callers."""
    _insert(tx, [job for call in calls for one in call for job in one.jobs])
    return [_accepted(call) for call in calls]


def is_plain(submit: Submit) -> bool:
    for job in submit.jobs:
        if job.key is not None or job.dependencies or job.tags or job.run_at is not None:
            return False
    return True


def _accepted(submits: Sequence[Submit]) -> list[SubmitAnswer]:
    return [tuple([Submitted(job.id) for job in one.jobs]) for one in submits]


def _insert(tx: SQLiteTransaction, jobs: Sequence[NewJob]) -> None:
    if len(jobs) == 1:
        _insert_one(tx, jobs[0])
    elif jobs:
        _insert_many(tx, jobs)


def _insert_one(tx: SQLiteTransaction, job: NewJob) -> None:
    """One job without reserving a number first: SQLite gives it."""
    if tx.cursor.execute(SQL["submit.job"], plain_job_row(None, job, tx.now_microseconds)).rowcount:
        seq = tx.cursor.lastrowid
        assert seq is not None
        _stand(tx, seq, seq, {(job.queue, _is_delayed(job)): 1})


def _insert_many(tx: SQLiteTransaction, jobs: Sequence[NewJob]) -> None:
    first = tx.reserve(len(jobs))
    last = first + len(jobs) - 1
    rows = [plain_job_row(seq, job, tx.now_microseconds) for seq, job in enumerate(jobs, start=first)]
    if tx.run_many("submit.job", rows) == len(jobs):
        counts: dict[tuple[str, bool], int] = Counter((job.queue, _is_delayed(job)) for job in jobs)
    else:
        # Some were there before; which ones, only the table knows.
        counts = {(queue, bool(is_delayed)): n for queue, is_delayed, n in tx.rows("submit.count", first, last)}
    _stand(tx, first, last, counts)


def _is_delayed(job: NewJob) -> bool:
    # Less than a microsecond is no delay that could be stored.
    return job.delay_seconds > 0 and duration_microseconds(job.delay_seconds) > 0


def _stand(tx: SQLiteTransaction, first: int, last: int, counts: dict[tuple[str, bool], int]) -> None:
    """Put those of the numbers first … last that were inserted where they belong; ``counts`` by queue and delay."""
    has_delayed = False
    for (queue, is_delayed), jobs in counts.items():
        tx.tally[queue, State.DELAYED if is_delayed else State.SCHEDULED] += jobs
        if is_delayed:
            has_delayed = True
        else:
            tx.awakened.add(queue)
    if tx.awakened:
        tx.run("submit.ready", first, last)
    if has_delayed:
        tx.run("submit.delayed", first, last)
