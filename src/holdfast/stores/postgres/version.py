"""Which schema this code speaks, and where a database says which one it has.

Apart from ``migrate``: a store asks this at every start, and Alembic is needed only to change a schema.
"""

from pathlib import Path
from typing import Final

MIGRATIONS: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "schema_version"


def head() -> str:
    """The number of the newest migration, with which the names of its files begin."""
    return max(path.name.split("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
