"""Whose process has died is seen from its session."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql_beside(__file__)
