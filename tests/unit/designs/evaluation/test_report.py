import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.core.errors import Conflict, UsageError
from holdfast.designs.evaluation import samples
from holdfast.designs.evaluation.document import from_markdown, markdown, page
from holdfast.designs.evaluation.facts import Facts, about_machine, write_facts
from holdfast.designs.evaluation.fairness import Check
from holdfast.designs.evaluation.folders import Folder
from holdfast.designs.evaluation.profiles import find_profile
from holdfast.designs.evaluation.report import make_blocks, write_report
from holdfast.designs.evaluation.samples import Sample
from holdfast.designs.evaluation.summary import Summary
from tests.unit.designs.evaluation.making import journey, mix, sample

BROKEN = Check(name="the machine, before the run", required="idle", seen="90% busy", holds=False)


def facts(**given: object) -> Facts:
    name, profile = find_profile("quick")
    values = {
        "name": "evaluation-quick",
        "command": "holdfast eval",
        "profile_name": name,
        "profile": profile,
        "designs": ["a", "b"],
        "addresses": {},
        "started_at": "2026-11-16 09:00 UTC",
        "machine": about_machine(),
        "checks": [Check(name="slots of Design A", required="6", seen="6", holds=True)],
        "forced": False,
    }
    return Facts(**{**values, **given})  # type: ignore[arg-type]


def measured() -> list[Sample]:
    cells = [mix(1), mix(16), journey(1), journey(16), journey(0, workload="arrivals", loop="open", rate=30.0)]
    return [sample(design, cell, round=number) for number in range(3) for design in ("a", "b") for cell in cells]


def written(folder: Path) -> Path:
    write_facts(folder, facts())
    for one in measured():
        samples.append(folder / "samples.jsonl", one)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("run"))


def text_of(given: Facts, analysis: str = "") -> str:
    """The report without its plots: those take their time."""
    return markdown("x", make_blocks(given, Summary.of(measured()), [], from_markdown(analysis)))


def test_a_run_leaves_config_samples_summary_plots_and_reports(folder: Path) -> None:
    plots = {"throughput", "latency", "distribution", "end-to-end", "arrivals", "cost-per-hop"}
    names = {"config.json", "samples.jsonl", "summary.json", "report.md", "report.html"}
    assert {path.name for path in folder.iterdir()} == names | {f"{plot}.svg" for plot in plots}
    for plot in plots:
        assert ElementTree.parse(folder / f"{plot}.svg").getroot().tag.endswith("svg")
        assert f"({plot}.svg)" in (folder / "report.md").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reads-c16-j0"]["designs"]["a"]["requests_per_second"]["mean"] == 100
    assert summary["reads-c16-j0"]["ratios"]["b/a"]["submit_p50_ms"]["mean"] == pytest.approx(1 / 3, rel=0.01)


def test_the_page_needs_nothing_else(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    HTMLParser().feed(text)
    assert text.count("<svg") == 6
    for found in re.findall(r"""(?:src|href)=["']([^"']+)""", text):
        assert found.startswith("#")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_same_samples_give_the_same_files(folder: Path, tmp_path: Path) -> None:
    other = written(tmp_path)
    for path in folder.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name


def test_a_forced_run_says_so_at_the_top() -> None:
    text = text_of(facts(checks=[BROKEN], forced=True))
    top = text[: text.index("## What was found")]
    assert "forced although it is not fair" in top
    assert "90% busy" in top


def test_an_analysis_becomes_part_of_the_report() -> None:
    analysis = "Design B is <faster>.\n\n- one\n- two\n  of them\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
    assert "## Analysis\n\nDesign B is <faster>.\n\n- one\n- two of them\n" in text_of(facts(), analysis)
    shown = page("x", from_markdown(analysis))
    assert "Design B is &lt;faster&gt;." in shown
    assert "<td>1</td><td>2</td>" in shown


def test_results_take_the_place_of_earlier_ones_only_when_whole(tmp_path: Path) -> None:
    write_facts(Folder(tmp_path, "run").begin(), facts())
    final = Folder(tmp_path, "run")
    final.partial.joinpath("mark").touch()
    final.finish()
    again = Folder(tmp_path, "run")
    write_facts(again.begin(), facts())
    assert (tmp_path / "run" / "mark").exists()
    again.finish()
    assert not (tmp_path / "run" / "mark").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    with pytest.raises(Conflict, match="something else"):
        Folder(tmp_path, "bench")


def test_an_analysis_is_not_lost_unasked(tmp_path: Path) -> None:
    write_facts(Folder(tmp_path, "run").begin(), facts())
    Folder(tmp_path, "run").finish().joinpath("analysis.md").touch()
    with pytest.raises(Conflict, match="--replace"):
        Folder(tmp_path, "run")
    Folder(tmp_path, "run", replace=True)


def test_a_name_cannot_lead_elsewhere(tmp_path: Path) -> None:
    for name in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(UsageError, match="is not a name"):
            Folder(tmp_path, name)
