"""The words of a log record, whatever its arguments' own methods do."""

import logging
from typing import Final

_FORMATTER: Final = logging.Formatter()


def message_of(record: logging.LogRecord) -> str:
    """Never raises."""
    try:
        return record.getMessage()
    except Exception:
        return _raw_message(record)


def trace_of(record: logging.LogRecord) -> str:
    """The exception's traceback and the stack, where the record has them; never raises."""
    try:
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(_FORMATTER.formatException(record.exc_info))
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts)
    except Exception:
        return "a trace that cannot be formatted"


def readable(text: str) -> str:
    """Lone surrogates, which no encoding knows, as their escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _raw_message(record: logging.LogRecord) -> str:
    try:
        return f"{record.msg} {record.args!r}"
    except Exception:
        return f"a record at {record.pathname}:{record.lineno} that cannot be formatted"
