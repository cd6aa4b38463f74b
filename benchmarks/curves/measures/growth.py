"""Against what lies in the store: a backlog, a history, many queues.

Latency against a backlog is two things. A user's: how long a job of HIGH priority, submitted into the backlog while a
worker drains it at full speed, waits for its start. A worker's: how long a claim takes. Behind a backlog, the wait of a
NORMAL job is the backlog divided by the rate, and says nothing new.
"""

from contextlib import ExitStack
from typing import Final

from benchmarks.curves.measures import claims
from benchmarks.curves.measures.common import (
    ARRIVALS_A_SECOND,
    drain_and_arrivals,
    drain_within,
    tell_arrivals,
    waits_of,
)
from benchmarks.curves.measures.fill import fill_history, top_up
from benchmarks.curves.session import POSTGRES, SQLITE, Point, Session
from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import START_TIMEOUT_SECONDS, Visit
from benchmarks.workload import queue_names

CLAIMS: Final = "backlog, claims"
"""Where the times of claims are kept: a curve has one kind of wait."""
CLAIM_JOBS: Final = 10
"""As many as a worker at its defaults claims when nothing is known of its jobs yet."""
SKIPPED_SHARE: Final = 0.15
FASTEST_JOBS_A_SECOND: Final = 15_000
"""Arrivals into a backlog are so few that one drained at this rate does not run dry meanwhile."""


def measure_backlog(session: Session) -> None:
    sizes = session.sizes
    points = [Point(series=POSTGRES, x=level) for level in sizes.backlogs]
    points += [Point(series=SQLITE, store=SQLITE, x=level) for level in sizes.sqlite_backlogs]
    with ExitStack() as stack:
        visits = {}
        for point in points:
            session.say(f"backlog: {point.name} jobs are filled in")
            visits[point.name] = stack.enter_context(session.visit(point))
            top_up(session, point, visits[point.name], jobs=int(point.x))
            visits[point.name].place.settle_down()
        session.take_turns("backlog", points, lambda point: _backlog(session, point, visits[point.name]))
        session.take_turns(CLAIMS, points, lambda point: _claims(point, visits[point.name]), rounds=1)


def _backlog(session: Session, point: Point, visit: Visit) -> Sample:
    level = int(point.x)
    jobs = min(session.sizes.window_jobs, int(level * 0.8))
    figures = drain_within(visit, jobs=jobs, skip=int(jobs * SKIPPED_SHARE))
    visit.finish_workers()
    top_up(session, point, visit, jobs=level)
    before = visit.ledger.count
    visit.start_workers()
    visit.wait_for(before + 1, timeout_seconds=START_TIMEOUT_SECONDS)
    arrivals = min(session.sizes.arrivals, int(level / FASTEST_JOBS_A_SECOND * ARRIVALS_A_SECOND))
    tell_arrivals(visit, jobs=arrivals, rate=ARRIVALS_A_SECOND, is_high=True)
    visit.finish_workers()
    waits = waits_of(visit.ledger.entries(after=before))
    top_up(session, point, visit, jobs=level)
    return Sample(figures={**figures, "waits": len(waits)}, waits=waits)


def _claims(point: Point, visit: Visit) -> Sample:
    calls = max(100, min(1000, int(point.x * 0.5 / CLAIM_JOBS)))
    return claims.claim_and_settle(point, visit, batch=CLAIM_JOBS, calls=calls)


def measure_history(session: Session) -> None:
    points = [Point(series=POSTGRES, x=jobs) for jobs in session.sizes.histories]
    with ExitStack() as stack:
        visits = {}
        for point in points:
            session.say(f"history: {point.name} ended jobs are filled in")
            visits[point.name] = stack.enter_context(session.visit(point))
            fill_history(visits[point.name].place.url, int(point.x))
            visits[point.name].place.settle_down()
        session.take_turns("history", points, lambda point: _history(session, visits[point.name]))


def _history(session: Session, visit: Visit) -> Sample:
    visit.producer.tell("fill", jobs=session.sizes.drain_jobs)
    visit.place.settle_down()
    sample = drain_and_arrivals(visit, jobs=session.sizes.drain_jobs, arrivals=session.sizes.arrivals)
    visit.finish_workers()
    return sample


def measure_queues(session: Session) -> None:
    """A worker that serves them all, in the order it was given; jobs are spread evenly."""
    points = [
        Point(series=POSTGRES, x=count, worker=("--queues", ",".join(queue_names(count))))
        for count in session.sizes.queues
    ]

    def measure(point: Point) -> Sample:
        queues, jobs = int(point.x), session.sizes.drain_jobs
        with session.visit(point) as visit:
            visit.producer.tell("fill", jobs=jobs, queues=queues)
            visit.place.settle_down()
            return drain_and_arrivals(visit, jobs=jobs, arrivals=session.sizes.arrivals, queues=queues)

    session.take_turns("queues", points, measure)
