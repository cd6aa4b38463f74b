"""Who waits for whom, and the marks of ended jobs whose dependents have not been told."""

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.core.dependencies import Edge
from holdfast.core.job import Record
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.rows import edge_from


class Linking(Locking):
    async def add_edges(self, edges: Sequence[Edge]) -> None:
        await self._run("edges.add", *_edge_columns(edges))

    async def edges_to(self, children: Collection[int]) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.to", list(children))]

    async def edges_from(self, parents: Collection[int]) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.from", list(parents))]

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]:
        return [edge_from(row) for row in await self._run("edges.open_from", list(parents), limit)]

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        await self._run("edges.set", *_edge_columns(edges))

    async def close_alternatives(self, children: Collection[int]) -> None:
        await self._run("edges.close_alternatives", list(children))

    async def with_open_edges(self, children: Collection[int]) -> set[int]:
        return {row["child"] for row in await self._run("edges.with_open", list(children))}

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        rows = await self._run("edges.spawned", list(parents))
        return list((await self.lock([row["seq"] for row in rows])).values())

    # marks

    async def mark(self, seqs: Collection[int]) -> None:
        await self._run("edges.mark", sorted(seqs))
        self.marked.update(seqs)

    async def unmark(self, seqs: Collection[int]) -> None:
        await self._run("edges.unmark", sorted(seqs))
        self.marked.difference_update(seqs)

    async def find_marks(self, *, limit: int) -> list[int]:
        rows = await self._run("edges.find_marks", *self._sweeps.marks.begin(), limit)
        return self._sweeps.marks.found([(row["place"], row["job"]) for row in rows], limit=limit)


def _edge_columns(edges: Sequence[Edge]) -> list[list[Any]]:
    return [
        [edge.child for edge in edges],
        [edge.parent for edge in edges],
        [edge.kind for edge in edges],
        [edge.is_open for edge in edges],
    ]
