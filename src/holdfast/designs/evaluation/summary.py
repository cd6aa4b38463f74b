"""From samples to figures with intervals: per cell and design, and the ratios of the designs round by round. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.designs.evaluation.designs import TITLES
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.samples import Sample
from holdfast.designs.evaluation.statistics import Interval, interval, ratio


@dataclass(frozen=True, slots=True)
class Summary:
    samples: Sequence[Sample]
    _figures: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
    """By cell and design, then round."""

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Summary":
        figures: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
        for sample in samples:
            figures.setdefault((sample.cell.key, sample.design), {})[sample.round] = sample.figures()
        return cls(samples, figures)

    @property
    def designs(self) -> list[str]:
        """In the order of the titles, not of the run."""
        seen = {sample.design for sample in self.samples}
        return [design for design in TITLES if design in seen]

    @property
    def cells(self) -> list[Cell]:
        return list({sample.cell.key: sample.cell for sample in self.samples}.values())

    def cells_of(self, workload: str) -> list[Cell]:
        return sorted(
            (cell for cell in self.cells if cell.workload == workload),
            key=lambda cell: (cell.job_ms, cell.clients, cell.rate),
        )

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys(cell.workload for cell in self.cells))

    def samples_of(self, cell: Cell, design: str) -> list[Sample]:
        return [one for one in self.samples if one.design == design and one.cell.key == cell.key]

    def values(self, cell: Cell, design: str, figure: str) -> dict[int, float]:
        """By round."""
        rounds = self._figures.get((cell.key, design), {})
        return {number: figures[figure] for number, figures in rounds.items() if figure in figures}

    def figure(self, cell: Cell, design: str, figure: str) -> Interval | None:
        return interval(list(self.values(cell, design, figure).values()))

    def has(self, cell: Cell, figure: str) -> bool:
        """Was it measured of any design?"""
        return any(self.values(cell, design, figure) for design in self.designs)

    def mean(self, cell: Cell, design: str, figure: str) -> float | None:
        found = self.figure(cell, design, figure)
        return None if found is None else found.mean

    def ratio(self, cell: Cell, one: str, other: str, figure: str) -> Interval | None:
        """Only rounds that have both."""
        ones, others = self.values(cell, one, figure), self.values(cell, other, figure)
        both = sorted(ones.keys() & others.keys())
        return ratio([ones[number] for number in both], [others[number] for number in both])

    def pairs(self) -> Iterator[tuple[str, str]]:
        designs = self.designs
        yield from ((one, other) for index, other in enumerate(designs) for one in designs[index + 1 :])

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for rounds in self._figures.values() for one in rounds.values() for name in one))

    def data(self) -> dict[str, Any]:
        """For ``summary.json``."""
        return {
            cell.key: {
                "cell": {"workload": cell.workload, "load": cell.load, "job_ms": cell.job_ms},
                "designs": {design: self._intervals(cell, design) for design in self.designs},
                "ratios": {f"{one}/{other}": self._ratios(cell, one, other) for one, other in self.pairs()},
            }
            for cell in self.cells
        }

    def _intervals(self, cell: Cell, design: str) -> dict[str, Any]:
        found = {name: self.figure(cell, design, name) for name in self.names()}
        return {name: one.data() for name, one in found.items() if one is not None}

    def _ratios(self, cell: Cell, one: str, other: str) -> dict[str, Any]:
        found = {name: self.ratio(cell, one, other, name) for name in self.names()}
        return {name: value.data() for name, value in found.items() if value is not None}
