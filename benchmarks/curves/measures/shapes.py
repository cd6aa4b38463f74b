"""Against the shape of the work: payload size, batch sizes, and how many jobs run at a time."""

from typing import Final

from benchmarks.curves.app import SLOW_SECONDS
from benchmarks.curves.measures import claims
from benchmarks.curves.measures.common import ARRIVALS_A_SECOND, drain_and_arrivals
from benchmarks.curves.session import POSTGRES, SQLITE, Point, Session
from benchmarks.peers.measures.drain import drain_filled
from benchmarks.peers.samples import Sample

BATCH_BYTES: Final = 10_000_000
"""A bulk submit carries no more than this."""
ARRIVING_BYTES_A_SECOND: Final = 10_000_000
LARGEST_DRAIN_RATE: Final = 10_000
LEAST_JOBS: Final = 60
MIN_CLAIMS: Final = 20
MEGABYTE: Final = 1_000_000


def measure_payload(session: Session) -> None:
    points = [
        Point(series=store, store=store, x=size) for store in (POSTGRES, SQLITE) for size in session.sizes.payloads
    ]

    def measure(point: Point) -> Sample:
        size = int(point.x)
        jobs = max(LEAST_JOBS, min(session.sizes.drain_jobs, session.sizes.payload_total // size))
        rate = min(ARRIVALS_A_SECOND, ARRIVING_BYTES_A_SECOND / size)
        arrivals = int(session.sizes.arrivals * rate / ARRIVALS_A_SECOND) or 1
        with session.visit(point) as visit:
            filled = visit.producer.tell("fill", jobs=jobs, size=size, batch=max(1, min(1000, BATCH_BYTES // size)))
            visit.place.settle_down()
            sample = drain_and_arrivals(visit, jobs=jobs, arrivals=max(LEAST_JOBS, arrivals), rate=rate, size=size)
        submitted, drained = filled["jobs"] / filled["seconds"], sample.figures["rate"] or 0.0
        more = {
            "submitted": submitted,
            "submitted_megabytes": submitted * size / MEGABYTE,
            "megabytes": drained * size / MEGABYTE,
        }
        return Sample(figures={**sample.figures, **more}, waits=sample.waits)

    session.take_turns("payload", points, measure)


def measure_batch(session: Session) -> None:
    """Of submits: one ``submit_many`` after the other, no worker. Of claims: through the port, each batch settled."""
    sizes = session.sizes
    submits = [
        Point(series=f"{store}, submit_many", store=store, x=batch)
        for store in (POSTGRES, SQLITE)
        for batch in sizes.submit_batches
    ]
    session.take_turns("batch", submits, lambda point: _submit(session, point), rounds=max(1, sizes.rounds - 1))
    claimed = [
        Point(series=f"{store}, claim and settle", store=store, x=batch)
        for store in (POSTGRES, SQLITE)
        for batch in sizes.claim_batches
    ]
    session.take_turns("batch", claimed, lambda point: _claim(session, point), rounds=1)


def _submit(session: Session, point: Point) -> Sample:
    with session.visit(point) as visit:
        visit.producer.tell("batches", size=int(point.x), seconds=session.sizes.submit_seconds / 4)
        answer = visit.producer.tell("batches", size=int(point.x), seconds=session.sizes.submit_seconds)
    waits = [took / 1e6 for took in answer["took"]]
    return Sample(figures={"rate": answer["jobs"] / answer["seconds"], "waits": len(waits)}, waits=waits)


def _claim(session: Session, point: Point) -> Sample:
    batch = int(point.x)
    # A call takes about a millisecond and what its jobs take.
    calls = int(session.sizes.claim_seconds / (0.002 + batch / LARGEST_DRAIN_RATE)) + MIN_CLAIMS // 4
    with session.visit(point) as visit:
        visit.producer.tell("fill", jobs=batch * calls)
        visit.place.settle_down()
        return claims.claim_and_settle(point, visit, batch=batch, calls=calls)


def measure_concurrency(session: Session) -> None:
    """Jobs that do nothing, and jobs that wait for something: what concurrency is for."""
    counts = session.sizes.concurrencies
    points = [
        Point(series=f"{store}, no-op", store=store, x=count, worker=("--concurrency", str(count)))
        for store in (POSTGRES, SQLITE)
        for count in counts
    ]
    slow = [
        Point(series=f"{POSTGRES}, jobs of 10 ms", x=count, worker=("--concurrency", str(count))) for count in counts
    ]
    session.take_turns("concurrency", points, lambda point: _no_ops(session, point))
    session.take_turns("concurrency", slow, lambda point: _slow_ones(session, point), rounds=1)


def _no_ops(session: Session, point: Point) -> Sample:
    jobs = session.sizes.drain_jobs
    with session.visit(point) as visit:
        visit.producer.tell("fill", jobs=jobs)
        visit.place.settle_down()
        return drain_and_arrivals(visit, jobs=jobs, arrivals=session.sizes.arrivals)


def _slow_ones(session: Session, point: Point) -> Sample:
    jobs = int(min(session.sizes.drain_jobs, session.sizes.slow_seconds * point.x / SLOW_SECONDS))
    with session.visit(point) as visit:
        visit.producer.tell("fill", jobs=jobs, is_slow=True)
        visit.place.settle_down()
        return drain_filled(visit, jobs=jobs)
