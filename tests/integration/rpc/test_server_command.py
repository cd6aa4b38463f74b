"""``holdfast server --grpc`` as a real process: how it starts, is refused, stops and dies."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import loads
from pathlib import Path

import grpc
import pytest

from holdfast.rpc.client import NO_RETRY, Client
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.refusals import Code
from holdfast.stores.postgres import migrate
from tests.integration.cli.programs import DONE, INTERRUPTED, NOT_DONE, WRONG, Program, environment, refused
from tests.integration.rpc.servers import code_of
from tests.servers import PostgresServer
from tests.servers.postgres import children_of
from tests.servers.process import free_port

LONG_SECONDS = 60.0
STARTED = '"event": "server_started"'
AWAY = "postgresql://postgres@127.0.0.1:1/app"


@contextmanager
def server(url: str, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[tuple[Program, str]]:
    """The process, and where it listens."""
    with Program("server", "--grpc", listen, "--url", url, *arguments) as program:
        program.wait_for(STARTED)
        found = re.search(r'"address": "([^"]+)"', program.text)
        assert found is not None
        yield program, found[1]


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'jobs.db'}"


async def submit(client: Client, *, count: int, ms: int) -> list[str]:
    answers = await asyncio.gather(*(client.submit_job(job_type="x", work_duration_ms=ms) for _ in range(count)))
    return [answer.job_id for answer in answers]


def test_what_to_serve_must_be_said() -> None:
    assert "--grpc" in refused("server")


@pytest.mark.parametrize("address", ["50051", "host", ":50051", "host:port", "127.0.0.1:70000", "::1:50051", "host:-1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    assert "not an address" in refused("server", "--grpc", address)


def test_slots_are_a_number() -> None:
    assert "not a number" in refused("server", "--grpc", "--slots", "-1")


def test_a_port_that_is_taken_is_said_so_before_a_job_is_claimed(tmp_path: Path) -> None:
    with server(url_in(tmp_path)) as (_, address):
        line = refused("server", "--grpc", address, url=url_in(tmp_path), cwd=tmp_path)
    assert line.startswith(f"cannot listen on {address}")


def test_tables_that_are_missing_are_said_so(postgres_url: str) -> None:
    assert "holdfast migrate --url" in refused("server", "--grpc", "127.0.0.1:0", url=postgres_url)


def test_a_database_that_is_away_is_said_so() -> None:
    line = refused("server", "--grpc", "127.0.0.1:0", "--connect-timeout", "0", url=AWAY, code=NOT_DONE)
    assert "127.0.0.1" in line


@pytest.mark.parametrize("package", ["grpc", "google.protobuf", "grpc_health", "grpc_reflection"])
def test_packages_that_are_missing_are_said_so(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from holdfast.cli import main; sys.exit(main(['server', '--grpc', '127.0.0.1:0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment()
    )
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr == "holdfast: holdfast server --grpc needs more packages; run: pip install 'holdfast[grpc]'\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, DONE), (signal.SIGINT, INTERRUPTED)])
async def test_a_signal_stops_it_in_good_order(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with server(url_in(tmp_path)) as (program, address):
        async with Client(address) as client:
            await submit(client, count=1, ms=0)
        program.signal(number)
        assert program.exit_code() == code
    events = [loads(line)["event"] for line in program.text.splitlines()]
    assert events[-2:] == ["server_stopping", "worker_stopped"]


async def test_a_second_signal_stops_it_at_once_and_its_jobs_are_handed_back(tmp_path: Path) -> None:
    with server(url_in(tmp_path), "--slots", "1") as (program, address):
        async with Client(address) as client:
            (job_id,) = await submit(client, count=1, ms=600_000)
            while (await client.get_job_status(job_id)).status != pb.RUNNING:
                await asyncio.sleep(0.01)
        program.signal(signal.SIGTERM)
        program.wait_for("once more stops at once")
        program.signal(signal.SIGTERM)
        assert program.exit_code() == DONE
    with server(url_in(tmp_path), "--slots", "0") as (_, address):
        async with Client(address) as client:
            assert (await client.get_job_status(job_id)).status == pb.RUNNING  # once started
            assert (await client.cancel_job(job_id)).current_status == pb.CANCELED


async def test_what_was_accepted_survives_kill_9(tmp_path: Path) -> None:
    """DURABLE-1: every job whose submit was answered ends, and each key still stands for one job."""
    url, listen = url_in(tmp_path), f"127.0.0.1:{free_port()}"
    accepted: dict[str, str] = {}
    with server(url, listen=listen) as (program, address):

        async def load(client: Client, number: int) -> None:
            for turn in range(100_000):
                key = f"{number}-{turn}"
                try:
                    answer = await client.submit_job(job_type="x", work_duration_ms=turn % 5, client_request_id=key)
                except grpc.aio.AioRpcError as error:
                    assert error.code() in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)  # noqa: PT017
                    return
                accepted[key] = answer.job_id
                if len(accepted) == 100:
                    os.kill(program.pid, signal.SIGKILL)

        async with Client(address, retry=NO_RETRY) as client:
            await asyncio.gather(*(load(client, number) for number in range(8)))
        assert program.exit_code() == -signal.SIGKILL
    assert len(accepted) >= 100
    with server(url, listen=listen) as (_, address):
        async with Client(address) as client:
            for key, job_id in accepted.items():
                result = await client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)
                assert result.terminal_status == pb.DONE
                turn = int(key.partition("-")[2])
                again = await client.submit_job(job_type="x", work_duration_ms=turn % 5, client_request_id=key)
                assert again.job_id == job_id


async def _codes(client: Client, job_id: str) -> set[grpc.StatusCode]:
    calls = (
        client.submit_job(job_type="x", client_request_id="while it is away"),
        client.get_job_status(job_id),
        client.get_job_result(job_id),
        client.cancel_job(job_id),
        client.list_jobs(),
    )
    return set(await asyncio.gather(*(code_of(call) for call in calls)))


async def test_a_database_that_is_away_or_hangs_is_unavailable_and_found_again(
    private_postgres: PostgresServer,
) -> None:
    """DURABLE-3: before the deadline, which would be another code."""
    await migrate.upgrade(private_postgres.url())
    with server(private_postgres.url()) as (program, address):
        async with Client(address, retry=NO_RETRY) as client:
            (job_id,) = await submit(client, count=1, ms=0)
            await client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)

            stopped = [private_postgres.pid, *children_of(private_postgres.pid)]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            try:
                assert await _codes(client, job_id) == {Code.UNAVAILABLE}
            finally:
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
            await _answers_again(client, job_id)

            private_postgres.stop()
            assert await _codes(client, job_id) == {Code.UNAVAILABLE}
            private_postgres.start()
            await _answers_again(client, job_id)
            (job_id,) = await submit(client, count=1, ms=0)
            assert (await client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)).terminal_status == pb.DONE
        codes = [loads(line).get("grpc_code") for line in program.text.splitlines()]
        assert codes.count("UNAVAILABLE") >= 10


async def _answers_again(client: Client, job_id: str) -> None:
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            try:
                await client.get_job_status(job_id)
                await client.submit_job(job_type="x", client_request_id="after it was away")
            except grpc.aio.AioRpcError as error:
                assert error.code() is Code.UNAVAILABLE  # noqa: PT017
                await asyncio.sleep(0.1)
            else:
                return
