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
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs.submit import submit as submit_by_verb


def submit(tx: SQLiteTransaction, submits: Sequence[Submit]) -> list[SubmitAnswer]:
    """Runs of plain and of other submits in the order given, which is the order of their places."""
    answers: list[SubmitAnswer] = []
    for are_plain, run in groupby(submits, key=is_plain):
        together = list(run)
        answers += _submit_plain(tx, together) if are_plain else run_now(submit_by_verb(tx, together))
    return answers


def submit_together(tx: SQLiteTransaction, calls: Sequence[Sequence[Submit]]) -> list[list[SubmitAnswer]]:
    """The plain submits of several callers."""
    answers = iter(_submit_plain(tx, [one for call in calls for one in call]))
    return [[next(answers) for _ in call] for call in calls]


def is_plain(submit: Submit) -> bool:
    return not any(job.key is not None or job.dependencies or job.tags or job.run_at is not None for job in submit.jobs)


def _submit_plain(tx: SQLiteTransaction, submits: Sequence[Submit]) -> list[SubmitAnswer]:
    _insert(tx, [job for one in submits for job in one.jobs])
    return [tuple(Submitted(job.id) for job in one.jobs) for one in submits]


def _insert(tx: SQLiteTransaction, jobs: Sequence[NewJob]) -> None:
    if len(jobs) == 1:
        _insert_one(tx, jobs[0])
    elif jobs:
        _insert_many(tx, jobs)


def _insert_one(tx: SQLiteTransaction, job: NewJob) -> None:
    """One job without reserving a number first: SQLite gives it."""
    if tx.run("submit.job", *plain_job_row(None, job, tx.now_microseconds)):
        seq = tx.cursor.lastrowid
        assert seq is not None
        _stand(tx, seq, seq, Counter({(job.queue, bool(duration_microseconds(job.delay_seconds))): 1}))


def _insert_many(tx: SQLiteTransaction, jobs: Sequence[NewJob]) -> None:
    first = tx.reserve(len(jobs))
    last = first + len(jobs) - 1
    rows = [plain_job_row(seq, job, tx.now_microseconds) for seq, job in enumerate(jobs, start=first)]
    if tx.run_many("submit.job", rows) == len(jobs):
        counts = Counter((job.queue, bool(duration_microseconds(job.delay_seconds))) for job in jobs)
    else:
        # Some were there before; which ones, only the table knows.
        counts = Counter(
            {(queue, bool(is_delayed)): n for queue, is_delayed, n in tx.rows("submit.count", first, last)}
        )
    _stand(tx, first, last, counts)


def _stand(tx: SQLiteTransaction, first: int, last: int, counts: Counter[tuple[str, bool]]) -> None:
    """Put those of the numbers first … last that were inserted where they belong."""
    delays = {is_delayed for _, is_delayed in counts}
    if False in delays:
        tx.run("submit.ready", first, last)
    if True in delays:
        tx.run("submit.delayed", first, last)
    for (queue, is_delayed), jobs in counts.items():
        tx.tally[queue, State.DELAYED if is_delayed else State.SCHEDULED] += jobs
        if not is_delayed:
            tx.awakened.add(queue)
