"""The flame graphs: of the drain worker on each store, with tables of the widest towers and of the parts."""

from dataclasses import dataclass
from typing import Final

from benchmarks.curves.flame.fold import Stacks, Tower, boxes, landmarks, parts
from benchmarks.curves.flame.picture import flame
from benchmarks.curves.flame.record import record
from benchmarks.curves.session import POSTGRES, SQLITE, Point, Session
from benchmarks.peers.samples import Sample

NAMES: Final = {
    "gc_collect_main (": "garbage collector",
    "gc_collect_generations (": "garbage collector",
    "fdatasync (": "waiting for the disk",
    "(benchmarks/": "the handler: it writes 16 bytes",
    "(holdfast/worker/": "holdfast.worker",
    "(holdfast/stores/": "holdfast.stores",
    "(holdfast/": "holdfast, the rest",
    "(asyncpg/": "asyncpg",
    "(protocol.c)": "asyncpg",
    "(pgproto.c)": "asyncpg",
    "(recordobj.c)": "asyncpg",
    "(msgspec/": "msgspec",
    "(libsqlite3": "SQLite",
    "(cursor.c)": "SQLite",
    "(connection.c)": "SQLite",
    "(_asynciomodule.c": "asyncio",
    "(asyncio/": "asyncio",
    "(_weakrefset.py)": "asyncio",
    "(uuid.py)": "uuid",
    "(loop.c)": "uvloop",
    "(core.c)": "uvloop",
    "(linux.c)": "uvloop",
    "(stream.c)": "uvloop",
}
WIDEST: Final = 25
NARROWEST: Final = 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class Flame:
    store: str
    samples: int
    shares: dict[str, float]
    widest: list[Tower]
    svg: str

    @property
    def file_name(self) -> str:
        return f"flame-{self.store.lower()}.svg"


def measure_flame(session: Session) -> None:
    points = [Point(series=store, store=store, x=0) for store in (POSTGRES, SQLITE)]

    def measure(point: Point) -> Sample:
        stacks = record(session, point)
        session.flames.append(flame_of(point.store, stacks))
        return Sample(figures={"samples": sum(stacks.values())})

    session.take_turns("flame", points, measure, rounds=1)


def flame_of(store: str, stacks: Stacks) -> Flame:
    samples = sum(stacks.values())
    return Flame(
        store=store,
        samples=samples,
        shares=parts(stacks, NAMES),
        widest=landmarks(stacks, narrowest=NARROWEST)[:WIDEST],
        svg=flame(boxes(stacks), title=f"holdfast worker, draining no-op jobs, {store}: {samples} samples at work"),
    )
