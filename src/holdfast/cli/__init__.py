"""The command line: one file a command."""

import argparse
import sys
from collections.abc import Sequence

from holdfast.cli import migrate
from holdfast.core.errors import HoldfastError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done · 1: it could not be done · 2: the command or the set-up is wrong."""
    parser = argparse.ArgumentParser(prog="holdfast", description="A job queue whose database is the truth.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    migrate.add_to(commands)
    chosen = parser.parse_args(arguments)
    try:
        answer: int = chosen.run(chosen)
    except KeyboardInterrupt:
        return 130
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) or error.code.startswith(("config", "schema")) else 1
    return answer
