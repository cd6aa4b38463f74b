"""The required speeds, measured for a moment each: that all is measured, not how fast it is."""

from functools import partial
from pathlib import Path

import pytest

from holdfast.designs.evaluation import samples
from holdfast.designs.evaluation.run import SAMPLES
from holdfast.designs.evaluation.speed import Sizes, Speed
from holdfast.designs.evaluation.systems import open_design
from tests.integration.designs.evaluation.test_load import Quiet

SHORT = Sizes(warm_up_seconds=0.1, turn_seconds=0.3, idle_seconds=1.0, rest_seconds=0.1, many_seconds=0.5)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_every_row_has_a_figure(tmp_path: Path) -> None:
    speed = Speed(
        folder=tmp_path,
        open=partial(open_design, slots=6),
        watcher=Quiet(),
        designs=["a", "b"],
        rounds=1,
        sizes=SHORT,
    )
    rows = await speed.run()
    assert [row.measured for row in rows if row.value is None] == []
    assert len([row for row in rows if row.required]) == 6
    measured = samples.read(tmp_path / SAMPLES)
    assert len(measured) == 10
    assert all(one.requests > 0 for one in measured)
