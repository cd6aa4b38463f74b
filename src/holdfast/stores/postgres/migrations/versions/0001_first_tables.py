"""The first tables."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql_beside(__file__)
