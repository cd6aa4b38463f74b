"""Places and job numbers from one sequence."""

from pathlib import Path

from alembic import context, op

from holdfast.stores.postgres.statements import Statements

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    statements = Statements(context.config.attributes["schema"])
    text = statements.fill(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    for statement in text.split(";\n"):
        if statement.strip():
            op.execute(statement)
