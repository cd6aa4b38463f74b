"""The queue in a SQLite file, for ``huey_consumer`` and for the producer."""

import os

from huey import SqliteHuey

from benchmarks.peers import peer

huey = SqliteHuey(
    filename=peer.URL.removeprefix("sqlite:///"), fsync=os.environ.get("BENCH_FSYNC") == "1", results=False
)


@huey.task()
def noop(payload: peer.Payload) -> None:
    peer.record(payload)
