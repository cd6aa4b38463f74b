"""The reference of the command line, made from the parser itself: ``docs/reference/command-line.md``.

To write it again: ``python -m holdfast.cli.reference > docs/reference/command-line.md``. A test compares the two.
"""

import argparse
from collections.abc import Iterator

from holdfast.cli import ENVIRONMENT, build_parser
from holdfast.cli.exits import MEANINGS


def reference() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    parser = build_parser()
    yield "# The command line"
    yield ""
    yield (
        "`holdfast COMMAND --help` says the same. Tables and live views are for terminals; a pipe gets one plain line\n"
        "a row, and `--json` gives one object. Errors are one line on standard error that tells the remedy."
    )
    yield ""
    yield from _table(("command", "what"), [(f"[`{name}`](#holdfast-{name})", text) for name, _, text in _of(parser)])
    yield "## Exit codes"
    yield ""
    yield from _table(("code", "meaning"), [(str(code.value), meaning) for code, meaning in MEANINGS.items()])
    yield "A pipe that nobody reads any more (`holdfast jobs | head`) ends a command silently with 0."
    yield ""
    yield "## Environment"
    yield ""
    yield from _table(("variable", "meaning"), [(f"`{name}`", meaning) for name, meaning in ENVIRONMENT.items()])
    for name, command, _ in _of(parser):
        yield from _command(f"holdfast {name}", command, level=2)


def _command(title: str, parser: argparse.ArgumentParser, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {title}"
    yield ""
    yield parser.description or ""
    yield ""
    yield "```console"
    yield from _examples(parser)
    yield "```"
    yield ""
    rows = [_row(action) for action in parser._actions if _is_argument(action)]  # noqa: SLF001
    yield from _table(("argument", "meaning"), rows)
    for name, command, _ in _of(parser):
        yield from _command(f"{title} {name}", command, level=level + 1)


def _examples(parser: argparse.ArgumentParser) -> Iterator[str]:
    _, *lines = (parser.epilog or "").splitlines()
    yield from (line.removeprefix("  ") for line in lines)


def _is_argument(action: argparse.Action) -> bool:
    is_ours = not isinstance(action, argparse._SubParsersAction | argparse._HelpAction | argparse._VersionAction)  # noqa: SLF001
    return is_ours and action.help != argparse.SUPPRESS


def _row(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    if action.option_strings and action.nargs != 0:
        names += f" {action.metavar or '|'.join(action.choices or ()) or action.dest.upper()}"
    return f"`{names}`", action.help or ""


def _of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The commands (or actions) of a parser, with their one line of help."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            yield from ((name, command, helps[name]) for name, command in action.choices.items())


def _table(titles: tuple[str, str], rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield "| --- | --- |"
    yield from (f"| {name.replace('|', chr(92) + '|')} | {text} |" for name, text in rows)
    yield ""


if __name__ == "__main__":
    print(reference())
