"""Leases are found by their end; the tally is added up in one step; the sequence lies above all that it gave out."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql_beside(__file__)
