"""Arrivals on a schedule, at shares of the peak that was measured just before.

The peak is a closed loop's: ten producers that submit one job after the other beside one worker. Arrivals then come at
30, 60 and 90 % of it, at random times that are drawn beforehand. Nobody waits for anybody: a wait counts from the
scheduled time, so that a stall delays all that should have come meanwhile, and shows.
"""

import sqlite3
import time
from typing import Final

import psycopg

from benchmarks.curves.measures.common import ARRIVALS_TIMEOUT_SECONDS, arrive, tell_arrivals
from benchmarks.curves.schedule import share_late
from benchmarks.curves.session import POSTGRES, SQLITE, Point, Session
from benchmarks.peers.measures.load import measure_steady
from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import Visit

SHARES: Final = (30, 60, 90)
"""Percent of the peak."""
WARM_UP_ARRIVALS: Final = 300
LATE_SECONDS: Final = 0.005
PEAK: Final = "peak"
DONE: Final = "open-loop, done"
"""Where the waits until the end are kept: the other curves have one kind of wait."""

COMPLETED: Final = {
    POSTGRES: b"""
        SELECT
            (convert_from(j.payload, 'UTF8')::json ->> 'submitted')::bigint,
            extract(epoch FROM e.completed_at)::float8
        FROM holdfast.ended e JOIN holdfast.job j ON j.seq = e.job""",
    SQLITE: b"""
        SELECT json_extract(CAST(j.payload AS TEXT), '$.submitted'), e.completed_at / 1000000.0
        FROM holdfast_ended e JOIN holdfast_job j ON j.seq = e.job""",
}


def measure_open_loop(session: Session) -> None:
    for store in (POSTGRES, SQLITE):
        _measure(session, store)


def _measure(session: Session, store: str) -> None:
    rounds = session.sizes.open_rounds
    peak = Point(series=f"{store}, {PEAK}", store=store, x=100)
    session.take_turns("open-loop", [peak], lambda point: _peak(session, point), rounds=rounds)
    rate = session.results.median("open-loop", peak.name, "rate")
    if rate is not None:
        points = [Point(series=store, store=store, x=share) for share in SHARES]
        session.take_turns(
            "open-loop", points, lambda point: _arrivals(session, point, rate * point.x / 100), rounds=rounds
        )


def _peak(session: Session, point: Point) -> Sample:
    with session.visit(point) as visit:
        sample = measure_steady(visit, seconds=session.sizes.steady_seconds)
    return Sample(figures={"rate": sample.figures["rate"], "waits": len(sample.waits)}, waits=sample.waits)


def _arrivals(session: Session, point: Point, rate: float) -> Sample:
    jobs = session.sizes.open_arrivals
    with session.visit(point) as visit:
        visit.start_workers()
        visit.warm_up()
        # Beside each other, too: connections are opened when they are needed, and then once.
        arrive(visit, jobs=WARM_UP_ARRIVALS, rate=rate)
        before = visit.ledger.count
        answer = tell_arrivals(visit, jobs=jobs, rate=rate)
        visit.wait_for(before + jobs, timeout_seconds=ARRIVALS_TIMEOUT_SECONDS)
        visit.wait_until(
            lambda: visit.place.pending() == 0,
            timeout_seconds=ARRIVALS_TIMEOUT_SECONDS,
            what=lambda: f"all but {visit.place.pending()} jobs have ended",
        )
        entries = visit.ledger.entries(after=before)
        waits = [entry.wait_seconds for entry in entries]
        done = _done(point, visit, after=answer["begun"])
    session.results.add(DONE, point.name, Sample(figures={}, waits=done))
    seconds = max(entry.started for entry in entries) - answer["begun"] / 1e6
    late = [microseconds / 1e6 for microseconds in answer["late"]]
    figures = {
        "offered": rate,
        "rate": jobs / seconds,
        "late_percent": share_late(late, after=LATE_SECONDS) * 100,
        "waits": len(waits),
    }
    return Sample(figures=figures, waits=waits)


def _done(point: Point, visit: Visit, *, after: int) -> list[float]:
    """Seconds from the scheduled time to what the store has as the job's end; the commit of that is still to come."""
    query, url = COMPLETED[point.store], visit.place.url
    if point.store == POSTGRES:
        with psycopg.connect(url) as connection:
            rows = connection.execute(query).fetchall()
    else:
        file = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True)
        try:
            rows = file.execute(query.decode()).fetchall()
        finally:
            file.close()
    # One clock for all processes of a machine; the store's is the wall's.
    between = time.time() - time.monotonic()
    return [ended - between - submitted / 1e6 for submitted, ended in rows if submitted >= after]
