"""The parts of the harness do what their names say: else a green run would mean little."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from chaos import ledger
from chaos.caller import CallerLog
from chaos.clock import CLOCK_VARIABLE, Clock
from chaos.doctor import read_verdict
from chaos.faults import FAULTS
from chaos.history import Answer, Cancel, Keyed, read_answers
from chaos.plan import plan
from chaos.proxy import CLAIM, ClaimTrap, Link
from chaos.reading import put_right
from chaos.server_clock import ServerClock, find_compiler
from chaos.turns import Turns

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
    answers = read_answers([log])
    assert [(group.job_ids, group.answer) for group in answers.groups] == [
        ((ids[0], ids[1]), Answer.ACKNOWLEDGED),
        ((ids[2],), Answer.REJECTED),
        ((ids[3],), Answer.UNKNOWN),
    ]


def test_keys_and_cancels_are_read_apart_from_other_submits(tmp_path: Path) -> None:
    first, second, cancelled = (uuid4() for _ in range(3))
    log = tmp_path / "submits-0"
    log.write_text(
        f"try 1 {first} k\ntry 2 {second} k\nyes 1 1.5 {first}\nyes 2 2.5 {first}\ncancel 3 {cancelled}\nno 3 3.5\n"
    )
    answers = read_answers([log])
    assert answers.groups == []
    assert answers.keyed == [
        Keyed("k", (first,), Answer.ACKNOWLEDGED, (first,)),
        Keyed("k", (second,), Answer.ACKNOWLEDGED, (first,)),
    ]
    assert answers.cancels == [Cancel(cancelled, Answer.REJECTED)]


def test_callers_write_what_is_read(tmp_path: Path) -> None:
    job_id, other = uuid4(), uuid4()
    log = CallerLog(tmp_path / "submits-callers")
    log.end(log.begin("try", [job_id], "k"), is_committed=True, answered=[other])
    log.end(log.begin("try", [job_id, other]), is_committed=False)
    log.begin("cancel", [job_id])
    answers = read_answers([tmp_path / "submits-callers"])
    assert answers.keyed == [Keyed("k", (job_id,), Answer.ACKNOWLEDGED, (other,))]
    assert [(group.job_ids, group.answer) for group in answers.groups] == [((job_id, other), Answer.REJECTED)]
    assert answers.cancels == [Cancel(job_id, Answer.UNKNOWN)]


@pytest.mark.parametrize("jumps", [-1, 0, 1])
def test_times_of_a_clock_that_jumped_are_put_right(jumps: int) -> None:
    hours = 5 * 3600
    assert put_right(1_000_123.5 + jumps * hours, about=1_000_000.0, jump_seconds=hours) == pytest.approx(1_000_123.5)
    assert put_right(None, about=1_000_000.0, jump_seconds=hours) is None


@pytest.mark.skipif(find_compiler() is None, reason="without a C compiler this fault does not strike either")
def test_the_clock_of_a_program_that_is_not_ours_jumps_while_it_runs() -> None:
    clock = ServerClock()
    program = "while read line; do date +%s; done"
    try:
        with subprocess.Popen(
            ["/bin/sh", "-c", program],
            env={"PATH": "/usr/bin:/bin", **clock.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for seconds in (0, 5 * 3600, -5 * 3600):
                clock.set(seconds)
                process.stdin.write("ask\n")
                process.stdin.flush()
                ahead = int(process.stdout.readline()) - time.time()
                assert round(ahead / 3600) == seconds // 3600
            process.kill()
    finally:
        clock.close()


WRONG = {"code": "tally_wrong", "severity": "wrong", "count": 2, "what": "counts differ"}
WARNING = {"code": "dead_rows", "severity": "warning", "count": 9, "what": "many dead rows"}


@pytest.mark.parametrize(
    ("code", "output", "words"),
    [
        (0, {"findings": []}, []),
        (0, {"findings": [WARNING]}, []),
        (1, {"findings": [WARNING, WRONG]}, ["tally_wrong (2): counts differ"]),
        (0, {"findings": [WRONG]}, ["no verdict: exit code 0: away"]),
        (1, {"findings": []}, ["no verdict: exit code 1: away"]),
        (0, {}, ["no verdict: exit code 0: away"]),
        (2, {}, ["no verdict: exit code 2: away"]),
    ],
)
def test_the_verdict_of_the_doctor_is_read(code: int, output: object, words: list[str]) -> None:
    assert read_verdict(code, json.dumps(output), "away") == words


async def test_nobody_holds_a_transaction_while_somebody_wants_to_be_alone() -> None:
    turns, order = Turns(), []

    async def hold(name: str, until: asyncio.Event) -> None:
        async with turns.shared():
            order.append(name)
            await until.wait()

    async def be_alone() -> None:
        async with turns.alone():
            order.append("alone")

    first_ends, second_ends = asyncio.Event(), asyncio.Event()
    second_ends.set()
    async with asyncio.TaskGroup() as group:
        group.create_task(hold("first", first_ends))
        await asyncio.sleep(0)
        group.create_task(be_alone())
        await asyncio.sleep(0)
        group.create_task(hold("second", second_ends))
        await asyncio.sleep(0)
        assert order == ["first"]
        first_ends.set()
    assert order == ["first", "alone", "second"]


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
def heard() -> list[bytes]:
    """What the server heard."""
    return []


@pytest.fixture
async def link(heard: list[bytes]) -> AsyncIterator[Link]:
    """To a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            heard.append(data)
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


PARSE = b"P\0\0\0\0statement\0" + CLAIM + b" 10 jobs\0"
BIND = b"B\0\0\0\0\0statement\0"


async def test_a_claims_answer_is_lost_and_nothing_before_it(heard: list[bytes], link: Link) -> None:
    reader, writer = await connect(link)
    assert await say(reader, writer, PARSE) == PARSE
    assert await say(reader, writer, BIND) == BIND
    delivered = asyncio.Event()
    delivered.set()
    ended = asyncio.Event()
    trap = ClaimTrap(ended.set, delivered)
    link.lose_claim(trap)
    assert await say(reader, writer, b"another statement") == b"another statement"
    with pytest.raises(ConnectionResetError):
        await say(reader, writer, BIND)
    assert ended.is_set()
    await heard_twice(heard)


async def test_a_claim_that_is_held_back_reaches_the_server_when_it_is_let_go(heard: list[bytes], link: Link) -> None:
    reader, writer = await connect(link)
    await say(reader, writer, PARSE)
    await say(reader, writer, BIND)
    trap = ClaimTrap(lambda: None, asyncio.Event())
    link.lose_claim(trap)
    with pytest.raises(ConnectionResetError):
        await say(reader, writer, BIND)
    assert trap.caught.is_set()
    assert heard.count(BIND) == 1
    trap.delivered.set()
    await heard_twice(heard)


async def heard_twice(heard: list[bytes]) -> None:
    async with asyncio.timeout(10):
        while heard.count(BIND) < 2:
            await asyncio.sleep(0.01)
