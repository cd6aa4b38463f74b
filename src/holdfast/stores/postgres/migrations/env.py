"""Alembic's entry: everything of substance is in ``migrate``."""

from alembic import context

from holdfast.stores.postgres.migrate import configure

configure(context.config)
