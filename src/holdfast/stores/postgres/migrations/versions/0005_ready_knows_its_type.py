"""Claims read a job's type where they look for it."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql_beside(__file__)
