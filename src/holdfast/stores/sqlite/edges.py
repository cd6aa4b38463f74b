"""Who waits for whom, and the marks of ended jobs whose dependents have not been told."""

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.core.dependencies import Edge
from holdfast.core.job import Record
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import edge_from, json_array


class Linking(Locking):
    async def add_edges(self, edges: Sequence[Edge]) -> None:
        self.run_many("edges.add", [(e.child, e.parent, e.kind.value, e.is_open) for e in edges])

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        await self.add_edges(edges)

    def _edges(self, name: str, seqs: Collection[int], *values: Any) -> list[Edge]:
        return [edge_from(row) for row in self.rows(name, json_array(seqs), *values)]

    async def edges_to(self, children: Collection[int]) -> list[Edge]:
        return self._edges("edges.to", children)

    async def edges_from(self, parents: Collection[int]) -> list[Edge]:
        return self._edges("edges.from", parents)

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]:
        return self._edges("edges.open_from", parents, limit)

    async def close_alternatives(self, children: Collection[int]) -> None:
        self.run("edges.close_alternatives", json_array(children))

    async def with_open_edges(self, children: Collection[int]) -> set[int]:
        return {row[0] for row in self.rows("edges.with_open", json_array(children))}

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        return self._records_in_order(self.rows("edges.spawned", json_array(parents)))

    # marks

    async def mark(self, seqs: Collection[int]) -> None:
        self.run_many("edges.mark", [(seq,) for seq in seqs])
        self.marked.update(seqs)

    async def unmark(self, seqs: Collection[int]) -> None:
        self.run("edges.unmark", json_array(seqs))
        self.marked.difference_update(seqs)

    async def find_marks(self, *, limit: int) -> list[int]:
        return [row[0] for row in self.rows("edges.find_marks", limit)]
