"""The store for production: PostgreSQL over asyncpg."""

from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
