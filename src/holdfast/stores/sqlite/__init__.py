"""The store in one SQLite file: the embedded default, for one machine and any number of processes."""

from holdfast.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
