"""How long jobs waited after their holder had died or could not be reached any more. Pure.

RECOVERY-1. Two times, both from the strike: until the lease was ended, and until the first line in the ledger of an
    attempt that began after it, under another lease. Between the two the job waits for its turn among all the others.
RECOVERY-2. A job that its holder ended all the same has no next start, and does not count.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from chaos.history import Audit, LeaseEvent, Trouble
from chaos.ledger import Entry


@dataclass(frozen=True, slots=True)
class Recovery:
    reclaimed_seconds: float
    started_seconds: float


def find_recoveries(
    ledger: Sequence[Entry], audit: Sequence[Audit], troubles: Sequence[Trouble]
) -> dict[str, list[Recovery]]:
    """By fault."""
    wanted = {job_id for trouble in troubles for job_id in trouble.cut_off}
    starts: defaultdict[UUID, list[Entry]] = defaultdict(list)
    for entry in ledger:
        if entry.event == "start" and entry.job_id in wanted:
            starts[entry.job_id].append(entry)
    deaths: defaultdict[UUID, list[float]] = defaultdict(list)
    for one in audit:
        if one.event is LeaseEvent.DIED and one.job_id in wanted:
            deaths[one.job_id].append(one.at)
    found: defaultdict[str, list[Recovery]] = defaultdict(list)
    for trouble in troubles:
        for job_id in trouble.cut_off:
            began_at = trouble.began_at
            before = {entry.token for entry in starts[job_id] if entry.at <= began_at}
            after = [entry.at for entry in starts[job_id] if entry.at > began_at and entry.token not in before]
            ended = [at for at in deaths[job_id] if at > began_at]
            if after and ended:
                found[trouble.fault].append(Recovery(min(ended) - began_at, min(after) - began_at))
    return dict(found)
