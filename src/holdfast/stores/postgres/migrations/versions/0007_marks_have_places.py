"""Marks are found by the number of the transaction that left them."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql_beside(__file__)
