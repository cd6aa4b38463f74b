"""The verbs' transaction over PostgreSQL: row locks under READ COMMITTED, sets of rows, no session state.

Each of its parts stands in the module of its statements' name; all begin with ``lock``, which says how it works.
"""

from holdfast.stores.postgres.edges import Linking
from holdfast.stores.postgres.find import Finding
from holdfast.stores.postgres.fire import Firing
from holdfast.stores.postgres.idempotency import KeyHolding
from holdfast.stores.postgres.retention import Removing
from holdfast.stores.postgres.write import Writing


class PostgresTransaction(Writing, KeyHolding, Linking, Firing, Finding, Removing):
    """The whole of ``stores.transaction.Transaction``."""
