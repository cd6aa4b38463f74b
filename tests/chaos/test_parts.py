"""The parts of the harness do what their names say: else a green run would mean little."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from chaos import ledger
from chaos.clock import CLOCK_VARIABLE, Clock
from chaos.faults import FAULTS
from chaos.history import Answer, read_groups
from chaos.plan import plan
from chaos.proxy import Link

ROOT = Path(__file__).parents[2]
NAMES = [fault.name for fault in FAULTS]


def test_a_plan_is_the_same_for_the_same_seed() -> None:
    first = plan("7", NAMES, strikes_a_fault=3, seconds=60)
    assert first == plan("7", NAMES, strikes_a_fault=3, seconds=60)
    assert first != plan("8", NAMES, strikes_a_fault=3, seconds=60)
    assert sorted(strike.fault for strike in first) == sorted(NAMES * 3)
    assert all(0 <= strike.at_seconds <= 60 for strike in first)


def test_the_ledger_gives_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ledger.LEDGER_VARIABLE, str(tmp_path / "ledger"))
    monkeypatch.setattr(ledger, "_descriptors", {})
    job_id, token = uuid4(), uuid4()
    ledger.append("start", job_id=job_id, attempt=2, token=token)
    ledger.append("end", job_id=job_id, attempt=2, token=token)
    expected = [ledger.Entry("start", job_id, 2, token), ledger.Entry("end", job_id, 2, token)]
    assert list(ledger.read(tmp_path / "ledger")) == expected


def test_a_submit_without_an_answer_is_unknown(tmp_path: Path) -> None:
    ids = [uuid4() for _ in range(4)]
    log = tmp_path / "submits-0"
    log.write_text(f"try 1 {ids[0]},{ids[1]}\ntry 2 {ids[2]}\ntry 3 {ids[3]}\nno 2 7.5\nyes 1 8.5\n")
    groups = read_groups([log])
    assert [(group.job_ids, group.answer) for group in groups] == [
        ((ids[0], ids[1]), Answer.ACKNOWLEDGED),
        ((ids[2],), Answer.REJECTED),
        ((ids[3],), Answer.UNKNOWN),
    ]


def test_a_clock_jumps_while_its_process_runs(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    program = (
        "import time; from chaos import clock; real = time.time; clock.follow()\n"
        "while input(): print(round(time.time() - real()), round(time.time_ns() / 1e9 - real()), flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={CLOCK_VARIABLE: str(clock.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, 3600, 7200, -3600):
            clock.set(seconds)
            process.stdin.write("ask\n")
            process.stdin.flush()
            assert process.stdout.readline().split() == [str(seconds)] * 2
        process.kill()


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    """To a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    link = Link("127.0.0.1", server.sockets[0].getsockname()[1])
    await link.open()
    yield link
    await link.close()
    server.close()


async def connect(link: Link) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    assert await say(reader, writer, b"hello") == b"hello"
    return reader, writer


async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: bytes) -> bytes:
    writer.write(words)
    return await reader.read(1000)


async def test_a_stalled_link_holds_words_back_until_it_is_healed(link: Link) -> None:
    reader, writer = await connect(link)
    link.stall()
    answer = asyncio.create_task(say(reader, writer, b"later"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    link.resume()
    assert await answer == b"later"


async def test_held_answers_come_when_they_are_released(link: Link) -> None:
    reader, writer = await connect(link)
    link.hold_answers()
    answer = asyncio.create_task(say(reader, writer, b"heard"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    link.release_answers()
    assert await answer == b"heard"


async def test_a_slow_link_delivers(link: Link) -> None:
    reader, writer = await connect(link)
    link.slow(0.05)
    assert await say(reader, writer, b"slowly") == b"slowly"


async def test_a_reset_link_ends_its_connections_and_takes_new_ones(link: Link) -> None:
    reader, _ = await connect(link)
    assert link.reset() == 1
    with pytest.raises(ConnectionResetError):
        await reader.read(1000)
    await connect(link)


async def test_a_cut_link_swallows_words_for_good_and_takes_new_connections(link: Link) -> None:
    reader, writer = await connect(link)
    assert link.cut() == 1
    answer = asyncio.create_task(say(reader, writer, b"anybody?"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    await connect(link)
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    answer.cancel()
    writer.close()
