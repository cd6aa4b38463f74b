"""The job, for ``rq worker``, which imports it by its name."""

from benchmarks.peers import peer


def noop(payload: peer.Payload) -> None:
    peer.record(payload)
