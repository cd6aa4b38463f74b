"""The execution logs of a job, for ``holdfast job ID --logs``: where they are, and how they read."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from holdfast.cli import words
from holdfast.cli.output import console, show_section
from holdfast.cli.streams import note
from holdfast.core.errors import ConfigError
from holdfast.core.job import AttemptLog, Job
from holdfast.wiring import create_log_store, default_log_url

LEVELS: Final = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red", "DEBUG": "dim"}


async def read_logs(job: Job, *, store_url: str, log_url: str | None) -> list[AttemptLog]:
    url = log_url or default_log_url(store_url)
    if url is None:
        raise ConfigError("execution logs are switched off (HOLDFAST_LOGS=off); name their place with --log-url")
    logs = create_log_store(url)
    await logs.open()
    try:
        return await logs.read(job.id, created_at=job.created_at)
    finally:
        await logs.close()


def log_data(log: AttemptLog) -> dict[str, Any]:
    return {"attempt": log.attempt, "attempt_id": str(log.attempt_id), "lines": list(_lines(log))}


def show_logs(logs: Sequence[AttemptLog]) -> None:
    if not logs:
        note("nothing was logged or printed yet")
    screen = console()
    for log in logs:
        if len(logs) > 1:
            show_section(f"attempt {log.attempt}", "")
        for line in _lines(log):
            screen.print(_line(line), soft_wrap=True)


def _lines(log: AttemptLog) -> Iterator[dict[str, Any]]:
    for line in log.data.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            # Not ours, or cut short on its way: shown as it is.
            yield {"message": line.decode("utf-8", "replace")}


def _line(line: dict[str, Any]) -> Text:
    level = words.safe(str(line.get("level", "")))
    time = datetime.fromtimestamp(line.get("ts_ms", 0) / 1000, UTC).astimezone()
    text = Text(f"{time:%H:%M:%S}.{time.microsecond // 1000:03} ", style="dim")
    source = level if line.get("stream", "log") == "log" else str(line["stream"])
    text.append(f"{words.safe(source):<8} ", style=LEVELS.get(level, ""))
    text.append(words.safe_lines(str(line.get("message", ""))), style="")
    return text
