"""The store for tests: everything in this process's memory, gone with it."""

from holdfast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
