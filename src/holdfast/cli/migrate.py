"""``holdfast migrate``: bring a database's tables to this version."""

import argparse
from typing import Final

from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, checked, patiently, url_of
from holdfast.cli.exits import Exit
from holdfast.cli.streams import note, write_json
from holdfast.core.errors import ConfigError
from holdfast.wiring import create_store, migration_sql, upgrade, without_password

EXAMPLES: Final = """
holdfast migrate --url postgresql://localhost/app        create or upgrade the tables
holdfast migrate --url postgresql://localhost/app --sql  print the statements instead
HOLDFAST_URL=postgresql://localhost/app holdfast migrate --connect-timeout 60
"""
DESCRIPTION: Final = """Create or upgrade the tables, beside programs that work on them. Many processes may run this at
once, and it may be killed and run again. A SQLite file migrates itself when it is opened."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "migrate",
        help="create or upgrade the tables",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("--sql", action="store_true", help="print the statements, change nothing (PostgreSQL)")
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    with checked(url_of(arguments)) as url:
        if url.startswith(("postgresql://", "postgres://")):
            return await _migrate_postgres(url, arguments)
        if arguments.sql:
            raise ConfigError("--sql is for PostgreSQL; a SQLite file migrates itself when it is opened")
        store = create_store(url)
        await patiently(store.open, url=url, timeout_seconds=arguments.connect_timeout)
        await store.close()
        if arguments.json:
            write_json({"url": url})
        else:
            print(f"{url} is up to date")
        return Exit.DONE


async def _migrate_postgres(url: str, arguments: argparse.Namespace) -> int:
    if arguments.sql:
        print(migration_sql(url))
        return Exit.DONE
    schema, version = await patiently(lambda: upgrade(url, note), url=url, timeout_seconds=arguments.connect_timeout)
    if arguments.json:
        write_json({"url": without_password(url), "schema": schema, "version": version})
    else:
        print(f"schema {schema!r} is at version {version}")
    return Exit.DONE
