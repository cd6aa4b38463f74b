"""``holdfast migrate``: bring a database's tables to this version."""

import argparse
import asyncio
import os
from typing import Any

from holdfast.core.errors import ConfigError
from holdfast.wiring import (
    DEFAULT_SCHEMA,
    DEFAULT_URL,
    URL_VARIABLE,
    create_store,
    require_postgres,
    split_options,
)

EXAMPLES = f"""examples:
  holdfast migrate --url postgresql://localhost/app      create or upgrade the tables
  holdfast migrate --url postgresql://localhost/app --sql  print the statements instead
  {URL_VARIABLE}=postgresql://localhost/app holdfast migrate

A SQLite file migrates itself when it is opened. Many processes may run this at once."""


def add_to(commands: "argparse._SubParsersAction[Any]") -> None:
    parser = commands.add_parser(
        "migrate",
        help="create or upgrade the tables",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", default=os.environ.get(URL_VARIABLE, DEFAULT_URL), help=f"default: ${URL_VARIABLE}")
    parser.add_argument("--sql", action="store_true", help="print the statements, change nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    url: str = arguments.url
    if not url.startswith(("postgresql://", "postgres://")):
        return _open_and_close(url, wants_sql=arguments.sql)
    require_postgres()
    from holdfast.stores.postgres import migrate

    plain, options = split_options(url)
    schema = options.get("schema", DEFAULT_SCHEMA)
    if arguments.sql:
        print(migrate.sql(schema=schema))
        return 0
    asyncio.run(migrate.upgrade(plain, schema=schema))
    print(f"schema {schema!r} is at version {migrate.head()}")
    return 0


def _open_and_close(url: str, *, wants_sql: bool) -> int:
    if wants_sql:
        raise ConfigError("--sql is for PostgreSQL; a SQLite file migrates itself when it is opened")

    async def migrate_itself() -> None:
        store = create_store(url)
        await store.open()
        await store.close()

    asyncio.run(migrate_itself())
    print(f"{url} is up to date")
    return 0
