"""Reads, on a connection and a thread of their own: a reader never waits for a writer, nor a writer for it.

Every group of reads sees one snapshot, begun after the last of them was asked for: so a read sees whatever was
committed, by any process, before it was asked. What is read stands in ``read``.
"""

import sqlite3

from holdfast.stores.sqlite.connection import begin
from holdfast.stores.sqlite.connection_thread import ConnectionThread, Operation, fail
from holdfast.stores.sqlite.files import OpenFiles


class Reader(ConnectionThread):
    """Runs ``work(cursor)``."""

    def __init__(self, connection: sqlite3.Connection, files: OpenFiles) -> None:
        super().__init__("holdfast-sqlite-reader", connection, files)

    def serve(self, group: list[Operation]) -> None:
        try:
            begin(self.connection, "BEGIN")
        except sqlite3.Error as error:
            fail(group, error)
            return
        for operation in group:
            try:
                operation.answer = operation.work(self.cursor)
            except Exception as error:
                fail([operation], error)
        if self.connection.in_transaction:
            self.cursor.execute("ROLLBACK")
