"""How Holdfast itself speaks: log lines for machines and for people. Metrics and traces are ``contrib``'s."""

from holdfast.telemetry.json_lines import JsonFormatter, configure
from holdfast.telemetry.text_lines import TextFormatter

__all__ = ["JsonFormatter", "TextFormatter", "configure"]
