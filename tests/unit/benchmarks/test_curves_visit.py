"""A visit on a file, with the real producer and the real worker: what a point of most curves is."""

from benchmarks.bench import Progress
from benchmarks.curves.measures.claims import claim_and_settle
from benchmarks.curves.measures.common import drain_and_arrivals, drain_within
from benchmarks.curves.session import QUICK, SQLITE, Point, Session
from benchmarks.peers.places import Stores
from benchmarks.peers.samples import Sample

POINT = Point(series=SQLITE, store=SQLITE, x=1)


def test_jobs_are_drained_arrive_on_a_schedule_and_are_claimed_by_hand() -> None:
    with Stores() as stores:
        session = Session(stores=stores, sizes=QUICK, progress=Progress(1.0))
        with session.visit(POINT) as visit:
            visit.producer.tell("fill", jobs=60, size=300, batch=25, submitted=0)
            first = drain_within(visit, jobs=40, skip=10)
            visit.finish_workers()
            assert first["rate"] is not None
            visit.producer.tell("fill", jobs=20)
            left = visit.place.pending()
            sample = drain_and_arrivals(visit, jobs=left, arrivals=30, rate=200.0, is_high=True)
            assert sample.figures["run_again"] == 0
            assert len(sample.waits) == 30
            assert min(sample.waits) > 0
            visit.finish_workers()
            assert visit.place.kept() == 60 + 20 + 30
            answer = visit.producer.tell("batches", size=5, seconds=0.01)
            assert answer["jobs"] == 5 * len(answer["took"])
            claimed = claim_and_settle(POINT, visit, batch=5, calls=1)
            assert len(claimed.waits) == 1
            assert visit.place.kept() == 60 + 20 + 30 + 5


def test_a_point_that_fails_is_reported_and_the_others_go_on() -> None:
    with Stores() as stores:
        session = Session(stores=stores, sizes=QUICK, progress=Progress(1.0))
        points = [POINT, Point(series=SQLITE, store=SQLITE, x=2)]

        def measure(point: Point) -> Sample:
            if point.x == 1:
                raise ZeroDivisionError("no such thing")
            return Sample(figures={"rate": 2.0})

        session.take_turns("one", points, measure, rounds=1)
        (failure,) = session.results.failures
        assert str(failure) == "SQLite, 1, one: ZeroDivisionError: no such thing"
        assert len(session.results.of("one", points[1].name)) == 1
