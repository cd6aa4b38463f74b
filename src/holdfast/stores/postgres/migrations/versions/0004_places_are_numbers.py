"""Places and job numbers from one sequence."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql_beside(__file__)
