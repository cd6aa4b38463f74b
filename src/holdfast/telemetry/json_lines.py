"""Log records as JSON Lines, with the fields that every service of Holdfast writes.

Always: ``ts_ms``, ``level``, ``service``, ``method`` (the call that is served; else the function that spoke), ``event``
(else ``log``), ``logger`` and ``message``. Where a record has them, by ``extra=``: ``job_id``, ``worker_id``,
``grpc_code``, ``request_id``, ``latency_ms``, ``expected_status``, ``current_status``, and whatever else was given; an
exception's traceback is ``trace``.

JSONLINE-1. A record is one line and one JSON object, in ASCII, whatever it contains.
JSONLINE-2. Formatting never raises.
JSONLINE-3. What a record brings along never stands in place of the fields that are always there.
"""

import json
import logging
import math
import sys
from typing import Any, Final, TextIO

from holdfast.telemetry.records import message_of, readable, trace_of
from holdfast.telemetry.text_lines import TextFormatter

DEFAULT_EVENT: Final = "log"

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_ALWAYS: Final = frozenset({"ts_ms", "level", "service", "logger", "trace"})


class JsonFormatter(logging.Formatter):
    def __init__(self, *, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts_ms": int(record.created * 1000),
            "level": record.levelname,
            "service": self._service,
            "method": record.funcName or "",
            "event": DEFAULT_EVENT,
            "logger": record.name,
        }
        fields.update((name, value) for name, value in vars(record).items() if _is_extra(name))
        fields["message"] = message_of(record)
        if trace := trace_of(record):
            fields["trace"] = trace
        return json.dumps({readable(str(name)): _plain(value) for name, value in fields.items()})


class Handler(logging.StreamHandler[TextIO]):
    """The one that ``configure`` puts on the root logger, so that it finds it again."""


def configure(
    *, service: str, level: int | str = logging.INFO, stream: TextIO | None = None, is_text: bool = False
) -> logging.Handler:
    """Write what is logged in this process to ``stream`` (standard error), as JSON Lines or as text for people.

    A second call replaces what the first one set up; handlers of others stay.
    """
    target = sys.stderr if stream is None else stream
    handler = Handler(target)
    handler.setFormatter(TextFormatter(has_colours=target.isatty()) if is_text else JsonFormatter(service=service))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _is_extra(name: str) -> bool:
    return name not in _STANDARD and name not in _ALWAYS


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    try:
        return readable(str(value))
    except Exception:
        return f"a {type(value).__name__} that cannot be written"
