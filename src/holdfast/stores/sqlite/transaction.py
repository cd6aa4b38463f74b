"""The verbs' transaction over one cursor. It never suspends, and it has the only write lock there is.

Each of its parts stands in the module of its statements' name; all begin with ``lock``, which says how it works.
"""

from holdfast.stores.sqlite.edges import Linking
from holdfast.stores.sqlite.find import Finding
from holdfast.stores.sqlite.fire import Firing
from holdfast.stores.sqlite.idempotency import KeyHolding
from holdfast.stores.sqlite.retention import Removing
from holdfast.stores.sqlite.write import Writing


class SQLiteTransaction(Writing, KeyHolding, Linking, Firing, Finding, Removing):
    """The whole of ``stores.transaction.Transaction``."""
