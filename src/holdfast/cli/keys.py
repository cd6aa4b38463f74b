"""``holdfast keys``: API keys; make, check and revoke them.

A secret is written to standard output by ``create`` and read from the environment or standard input by ``check``. It is
never taken from an argument: those are shown to every user of the machine, and kept in the shell's history.
"""

import argparse
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from getpass import getpass
from typing import Any, Final
from uuid import UUID

from rich.text import Text

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import Cell, show_table
from holdfast.cli.streams import note, write_json
from holdfast.core.access import ApiKey, Scope, find_public_part, is_secret, public_part
from holdfast.core.errors import AccessDenied, KeyRefused, UsageError
from holdfast.engine.documents import time_text

KEY_VARIABLE: Final = "HOLDFAST_KEY"
MAX_INPUT_BYTES: Final = 4096
EXAMPLES: Final = """
holdfast keys                                        who may come in, and for what
holdfast keys create ci --scope submit --scope read  its secret, this once
holdfast keys create deploy --scope manage --expires 90d
holdfast keys check --scope submit < key.txt         exit code 0: it may
holdfast keys revoke 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55
"""
DESCRIPTION: Final = """List API keys; make, check and revoke them. They are for front doors on the network, and this
version has none yet. The Python API and the command line ask for no key: who may use the database may do everything."""
CREATE_EXAMPLES: Final = """
holdfast keys create ci --scope submit --scope read
holdfast keys create deploy --scope manage --expires 90d
"""
CREATE_DESCRIPTION: Final = """Make a key and write its secret to standard output. It is shown this once: the database
keeps only a digest, from which nobody can make it again."""
CHECK_EXAMPLES: Final = """
holdfast keys check --scope submit < key.txt
holdfast keys check --scope read --json    asks for the key, without showing it
"""
CHECK_DESCRIPTION: Final = f"""Say whether a key is good for something. It is read from ${KEY_VARIABLE}, else from
standard input; never from an argument, which other users can see. Exit code 0: it is good; 1: it is not, or the
database could not be asked."""
REVOKE_EXAMPLES: Final = """
holdfast keys revoke 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55
holdfast keys revoke hf_XwxbHo1eS1KfDm8fOh96VQ       how a leaked secret begins
"""
IN_ARGUMENTS: Final = "a key in an argument is seen by every user of this machine"


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "keys",
        help="list API keys; create, check and revoke them",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(show),
    )
    add_url(parser)
    add_json(parser)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    for add_action in (_add_create, _add_check, _add_revoke):
        action = add_action(actions)
        add_url(action, is_nested=True)
        add_json(action, is_nested=True)


def _add_create(actions: Commands) -> argparse.ArgumentParser:
    action = add_command(
        actions,
        "create",
        help="make a key; its secret is shown this once",
        description=CREATE_DESCRIPTION,
        examples=CREATE_EXAMPLES,
        run=asynchronous(create),
    )
    action.add_argument("name", metavar="NAME", help="for people: who will use it, or what for")
    action.add_argument(
        "--scope",
        type=_scopes,
        action="extend",
        required=True,
        metavar="SCOPE",
        help=f"one or more of {', '.join(Scope)}; admin includes the others",
    )
    action.add_argument(
        "--expires", type=_lifetime, metavar="TIME", help="how long it is good: 12h, 90d; default: for ever"
    )
    return action


def _add_check(actions: Commands) -> argparse.ArgumentParser:
    action = add_command(
        actions,
        "check",
        help="say whether a key is good for something",
        description=CHECK_DESCRIPTION,
        examples=CHECK_EXAMPLES,
        run=asynchronous(check),
    )
    action.add_argument(
        "--scope", type=_scope, required=True, metavar="SCOPE", help=f"what for: one of {', '.join(Scope)}"
    )
    # Taken so that it can be refused without being repeated.
    action.add_argument("shown", nargs="*", help=argparse.SUPPRESS)
    return action


def _add_revoke(actions: Commands) -> argparse.ArgumentParser:
    action = add_command(
        actions,
        "revoke",
        help="end a key for good",
        description="End a key for good: it lets nobody in from the next request on. Repeats are harmless.",
        examples=REVOKE_EXAMPLES,
        run=asynchronous(revoke),
    )
    action.add_argument(
        "id", type=_key_id, metavar="ID", help="of the key, or how its secret begins: hf_ and 22 characters"
    )
    return action


def _scope(text: str) -> Scope:
    try:
        return Scope(text.strip().lower())
    except ValueError:
        raise values.Refused(f"{text!r} is not a scope; write one of {', '.join(Scope)}") from None


def _scopes(text: str) -> list[Scope]:
    return [_scope(part) for part in text.split(",")]


def _lifetime(text: str) -> float:
    given = values.seconds(text)
    if not given:
        raise values.Refused("a key that is good for no time opens nothing; write 12h or 90d, or leave it out")
    return given


def _key_id(text: str) -> UUID:
    written = text.strip()
    if is_secret(written):
        raise values.Refused(f"{IN_ARGUMENTS}; write only how it begins: {written[: len(public_part(UUID(int=0)))]}")
    found = find_public_part(written)
    if found is not None:
        return found
    try:
        return UUID(written)
    except ValueError:
        raise values.Refused("that is not the ID of a key; `holdfast keys` shows them") from None


async def show(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        keys = await engine.api_keys.list()
    now = datetime.now(UTC)
    if arguments.json:
        write_json({"keys": [_data(key, now) for key in keys]})
    elif keys:
        show_table(("!ID", "Name", "Scopes", "!State", ">Created", "Expires"), [_row(key, now) for key in keys])
    else:
        note("no API key yet; make one: holdfast keys create NAME --scope submit")
    return Exit.DONE


async def create(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        created = await engine.api_keys.create(
            arguments.name, scopes=arguments.scope, expires_in_seconds=arguments.expires
        )
    key = created.key
    if arguments.json:
        write_json({**_data(key, key.created_at), "secret": created.secret})
    else:
        print(created.secret)
        until = f" until {words.moment(key.expires_at)}" if key.expires_at else ""
        note(f"key {key.id} ({words.safe(key.name)}) is good for {_listed(key)}{until}; it cannot be shown again")
    return Exit.DONE


async def check(arguments: argparse.Namespace) -> int:
    if arguments.shown:
        raise UsageError(f"{IN_ARGUMENTS}; give it in ${KEY_VARIABLE} or on standard input")
    secret = _read_secret()
    async with open_engine(arguments) as engine:
        try:
            key = await engine.api_keys.check(secret, arguments.scope)
        except AccessDenied as denied:
            if not arguments.json:
                raise
            reason = denied.reason if isinstance(denied, KeyRefused) else denied.code
            write_json({"is_allowed": False, "scope": arguments.scope, "reason": reason, "key": None})
            return Exit.NOT_DONE
    if arguments.json:
        data = _data(key, datetime.now(UTC))
        write_json({"is_allowed": True, "scope": arguments.scope, "reason": None, "key": data})
    else:
        print(f"key {key.id} ({words.safe(key.name)}) is good for {arguments.scope}")
    return Exit.DONE


def _read_secret() -> str:
    given = os.environ.get(KEY_VARIABLE, "")
    if not given and sys.stdin.isatty():
        with suppress(EOFError):
            given = getpass("key: ")
    elif not given:
        # As bytes: what is no text at all is no key either, and nothing to stumble over.
        given = sys.stdin.buffer.read(MAX_INPUT_BYTES).decode("utf-8", "replace")
    if not given.strip():
        raise UsageError(f"no key was given; put it in ${KEY_VARIABLE}, or on standard input: < key.txt")
    return given.strip()


async def revoke(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        key = await engine.api_keys.revoke(arguments.id)
    if arguments.json:
        write_json(_data(key, datetime.now(UTC)))
    else:
        assert key.revoked_at is not None
        print(f"key {key.id} ({words.safe(key.name)}) is revoked since {words.moment(key.revoked_at)}")
    return Exit.DONE


def _state(key: ApiKey, now: datetime) -> str:
    return key.refusal_at(now) or "active"


_STYLES: Final = {"active": "green", "expired": "yellow", "revoked": "bold red"}


def _row(key: ApiKey, now: datetime) -> list[Cell]:
    state = _state(key, now)
    return [
        str(key.id),
        words.safe(key.name),
        _listed(key),
        Text(state, style=_STYLES[state]),
        words.age(key.created_at, now),
        words.moment(key.expires_at) if key.expires_at else "never",
    ]


def _listed(key: ApiKey) -> str:
    return ", ".join(scope for scope in Scope if scope in key.scopes)


def _data(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "id": str(key.id),
        "name": key.name,
        "scopes": [scope for scope in Scope if scope in key.scopes],
        "state": _state(key, now),
        "begins_with": public_part(key.id),
        "created_at": time_text(key.created_at),
        "expires_at": time_text(key.expires_at),
        "revoked_at": time_text(key.revoked_at),
    }
