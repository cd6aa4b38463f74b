"""What workers serve, and the slots of periodic jobs."""

from holdfast.stores.postgres.migrate import run_sql_beside

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql_beside(__file__)
