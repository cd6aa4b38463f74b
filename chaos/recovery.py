"""How long jobs waited for their next start after their holder had died or could not be reached any more. Pure.

V1. From the strike to the first line in the ledger of an attempt that began after it, under another lease.
V2. A job that its holder ended all the same has no next start, and does not count.
"""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from chaos.history import Trouble
from chaos.ledger import Entry


def find_recoveries(ledger: Sequence[Entry], troubles: Sequence[Trouble]) -> dict[str, list[float]]:
    """Seconds by fault, in order."""
    wanted = {job_id for trouble in troubles for job_id in trouble.cut_off}
    starts: defaultdict[UUID, list[Entry]] = defaultdict(list)
    for entry in ledger:
        if entry.event == "start" and entry.job_id in wanted:
            starts[entry.job_id].append(entry)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for trouble in troubles:
        for job_id in trouble.cut_off:
            before = {entry.token for entry in starts[job_id] if entry.at <= trouble.began_at}
            after = [e.at for e in starts[job_id] if e.at > trouble.began_at and e.token not in before]
            if after:
                found[trouble.fault].append(min(after) - trouble.began_at)
    return {fault: sorted(seconds) for fault, seconds in found.items()}
