"""Log records as lines for machines (JSONLINE-1 to JSONLINE-3) and for people."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.telemetry import JsonFormatter, TextFormatter, configure

LOG = logging.getLogger("tests.telemetry")
JOB_ID = UUID("6c9f4e60-3f0e-4d3c-9a68-0f4b7c6f6c11")


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    configure(service="worker", stream=stream)
    return stream


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def record(message: Any = "words", /, *args: Any, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("tests", logging.INFO, "file.py", 1, message, args, None, func="speak")
    vars(made).update(extra)
    return made


def test_a_line_has_the_fields_that_every_service_writes(stream: io.StringIO) -> None:
    LOG.warning(
        "refused %d",
        7,
        extra={
            "event": "submit_refused",
            "method": "SubmitJob",
            "job_id": str(JOB_ID),
            "worker_id": "w1",
            "grpc_code": "UNAVAILABLE",
            "request_id": "r1",
            "latency_ms": 1.5,
            "expected_status": "QUEUED",
            "current_status": "RUNNING",
        },
    )
    (line,) = objects(stream)
    assert isinstance(line.pop("ts_ms"), int)
    assert line == {
        "level": "WARNING",
        "service": "worker",
        "method": "SubmitJob",
        "event": "submit_refused",
        "logger": "tests.telemetry",
        "job_id": str(JOB_ID),
        "worker_id": "w1",
        "grpc_code": "UNAVAILABLE",
        "request_id": "r1",
        "latency_ms": 1.5,
        "expected_status": "QUEUED",
        "current_status": "RUNNING",
        "message": "refused 7",
    }


def test_what_a_record_lacks_is_left_out_but_for_the_fields_that_are_always_there(stream: io.StringIO) -> None:
    LOG.info("words")
    (line,) = objects(stream)
    assert set(line) == {"ts_ms", "level", "service", "method", "event", "logger", "message"}
    assert line["method"] == "test_what_a_record_lacks_is_left_out_but_for_the_fields_that_are_always_there"
    assert line["event"] == "log"


def test_an_exception_comes_with_its_trace(stream: io.StringIO) -> None:
    try:
        raise LookupError("the key")
    except LookupError:
        LOG.exception("not found")
    (line,) = objects(stream)
    assert line["message"] == "not found"
    assert line["trace"].endswith("LookupError: the key")


@given(message=st.text(st.characters(codec=None)), extra=st.dictionaries(st.text(st.characters(codec=None)), st.text()))
def test_whatever_is_said_is_one_line_and_one_object(message: str, extra: dict[str, str]) -> None:
    line = JsonFormatter(service="tests").format(record(message, **extra))
    assert line.isascii()
    assert len(line.splitlines()) == 1
    said = json.loads(line)
    assert said["service"] == "tests"
    assert isinstance(said["message"], str)


@pytest.mark.parametrize("value", [Unprintable(), float("nan"), float("inf"), {1: b"x"}, JOB_ID, 10**30, None, True])
def test_whatever_is_brought_along_can_be_written(value: object) -> None:
    line = JsonFormatter(service="tests").format(record("words", anything=value))
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("formatter", [JsonFormatter(service="tests"), TextFormatter()])
@pytest.mark.parametrize("argument", ["no number", Unprintable()])
def test_a_record_that_does_not_format_is_written_all_the_same(formatter: logging.Formatter, argument: object) -> None:
    assert formatter.format(record("%d of them", argument))


@pytest.mark.parametrize("name", ["ts_ms", "level", "service", "logger", "trace"])
def test_nothing_stands_in_place_of_what_is_always_there(name: str) -> None:
    line = json.loads(JsonFormatter(service="tests").format(record("words", **{name: "forged"})))
    assert line.get(name) != "forged"


def test_a_second_configuration_replaces_the_first_and_leaves_others_alone(stream: io.StringIO) -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    newer = io.StringIO()
    configure(service="worker", stream=newer, level="ERROR")
    LOG.warning("too fine")
    LOG.error("words")
    assert stream.getvalue() == ""
    assert [line["message"] for line in objects(newer)] == ["words"]
    assert other in logging.getLogger().handlers


def test_without_a_stream_it_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure(service="worker")
    LOG.error("words")
    assert json.loads(capsys.readouterr().err)["message"] == "words"


def test_a_stream_that_knows_only_ascii_takes_every_json_line() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    handler = configure(service="worker", stream=narrow)
    # By itself: half a surrogate pair in a test's report cannot be sent between pytest's processes.
    handler.handle(LOG.makeRecord(LOG.name, logging.ERROR, __file__, 1, "größer \ud800", (), None))
    narrow.flush()
    assert json.loads(narrow.buffer.getvalue())["message"] == "größer \\ud800"


def test_people_read_time_level_and_words() -> None:
    stream = io.StringIO()
    configure(service="worker", stream=stream, is_text=True)
    try:
        raise LookupError("the key")
    except LookupError:
        LOG.exception("not %s", "found")
    first, *trace = stream.getvalue().splitlines()
    assert first[8:] == " ERROR   not found"
    assert trace[0].startswith("Traceback")
    assert trace[-1] == "LookupError: the key"


def test_a_terminal_is_given_colours_and_never_what_moves_its_cursor() -> None:
    warning = record("a\x1b[2Jb\x00\x9bc\td\ne")
    warning.levelname = "WARNING"
    line = TextFormatter(has_colours=True).format(warning)
    assert "\x1b[33mWARNING\x1b[0m" in line
    assert line.endswith("a\\x1b[2Jb\\x00\\x9bc\td\ne")
    assert "\x1b" not in TextFormatter().format(warning)


def test_standard_error_as_it_is_later_is_not_followed() -> None:
    """A handler keeps the stream it was given: a job that replaces sys.stderr takes no log along."""
    stream = io.StringIO()
    configure(service="worker", stream=stream)
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        LOG.error("words")
    finally:
        sys.stderr = before
    assert len(objects(stream)) == 1
