"""64 clients at once, and exact accounts: every accepted job ends once, and nothing else is there."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import grpc

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceStub
from tests.blackbox.api import LONG_SECONDS, TERMINAL, Api, new_key, spec

if TYPE_CHECKING:
    from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceAsyncStub as AsyncStub

CLIENTS = 64
JOBS_A_CLIENT = 5
POLL_SECONDS = 0.02


@dataclass
class Account:
    """What one client knows of its jobs."""

    sizes: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    answers: int = 0


async def test_every_accepted_job_ends_exactly_once_under_load(api: Api) -> None:
    seed = random.randrange(2**32)
    before = listed(api)
    channels = [grpc.aio.insecure_channel(address) for address in api.addresses]
    stubs = [TaskQueuePublicServiceStub(channel) for channel in channels]
    async with asyncio.timeout(100):
        accounts = await asyncio.gather(
            *(client(number, stubs, random.Random(seed + number)) for number in range(CLIENTS))
        )
    for channel in channels:
        await channel.close()

    accepted = [job_id for account in accounts for job_id in account.sizes]
    assert len(accepted) == CLIENTS * JOBS_A_CLIENT, f"seed {seed}"
    assert len(set(accepted)) == len(accepted), f"seed {seed}: a job was given to two clients"
    assert Counter(status for account in accounts for status in account.ended.values()) == {pb.DONE: len(accepted)}
    after = listed(api)
    assert after - before == Counter(accepted), f"seed {seed}: listed otherwise than accepted"
    statuses = Counter(job.status for one in api.each() for job in one.walk() if job.job_id in set(accepted))
    assert statuses == {pb.DONE: len(accepted)}, f"seed {seed}: a job changed after its end"


async def client(number: int, stubs: Sequence["AsyncStub"], chance: random.Random) -> Account:
    """Submits with keys and without, repeats some submits, looks until each is over, and checks what came out."""
    account = Account()
    for turn in range(JOBS_A_CLIENT):
        given = spec(f"load-{number}", ms=chance.choice([0, 0, 0, 5]), size=chance.randrange(2000))
        key = new_key() if turn % 2 else ""
        job_ids = {await submit(chance.choice(stubs), given, key) for _ in range(2 if key else 1)}
        assert len(job_ids) == 1
        account.sizes[job_ids.pop()] = given.payload_size_bytes
    for job_id, size in account.sizes.items():
        account.ended[job_id] = await end(chance.choice(stubs), job_id)
        request = pb.GetJobResultRequest(job_id=job_id)
        result = await chance.choice(stubs).GetJobResult(request, timeout=LONG_SECONDS)
        assert (result.result_ready, len(result.output_bytes)) == (True, size)
        assert result.checksum == sha256(result.output_bytes).hexdigest()
    return account


async def submit(stub: "AsyncStub", given: pb.JobSpec, key: str) -> str:
    request = pb.SubmitJobRequest(spec=given, client_request_id=key)
    answer = await stub.SubmitJob(request, timeout=LONG_SECONDS)
    return str(answer.job_id)


async def end(stub: "AsyncStub", job_id: str) -> int:
    while True:
        answer = await stub.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id), timeout=LONG_SECONDS)
        if answer.status in TERMINAL:
            return int(answer.status)
        await asyncio.sleep(POLL_SECONDS)


def listed(api: Api) -> Counter[str]:
    """Over all addresses: how often each job is listed."""
    return Counter(job.job_id for one in api.each() for job in one.walk())
