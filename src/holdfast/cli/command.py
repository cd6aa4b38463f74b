"""What all commands share: how one is declared, and errors of usage in one line.

A command is a module with ``add_to(commands)``, which declares its arguments and names the function that runs it.
"""

import argparse
import asyncio
import textwrap
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

from holdfast.cli.exits import Exit
from holdfast.cli.streams import note

HELP_COLUMNS: Final = 88
Commands = Any
"""argparse keeps the type of ``add_subparsers()`` to itself."""


class Parser(argparse.ArgumentParser):
    """argparse's own, but an error is one line and says where help is."""

    late: Callable[[], None] | None = None
    """Adds arguments that the help of all commands can do without."""

    def error(self, message: str) -> NoReturn:
        note(f"{message}; see: {self.prog} --help")
        raise SystemExit(Exit.WRONG)


def add_command(
    commands: Commands,
    name: str,
    *,
    help: str,  # noqa: A002 - argparse's word
    run: Callable[[argparse.Namespace], int],
    examples: str,
    description: str | None = None,
) -> Parser:
    parser: Parser = commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(" ".join((description or f"{help[0].upper()}{help[1:]}.").split()), HELP_COLUMNS),
        epilog=f"examples:\n{_indented(examples)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def asynchronous(
    run: Callable[[argparse.Namespace], Coroutine[Any, Any, int]],
) -> Callable[[argparse.Namespace], int]:
    """A command that is a coroutine. Ctrl-C cancels it, so that it closes what it has opened."""
    return lambda arguments: asyncio.run(run(arguments))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.strip("\n").splitlines())
