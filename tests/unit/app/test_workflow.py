"""chain, fan_out and fan_in: who waits for whom, and by which kind."""

from typing import Any
from uuid import UUID

import pytest

from holdfast import Call, Holdfast, UsageError, Workflow, chain, fan_in, fan_out
from holdfast.core.dependencies import DependencyKind

app = Holdfast("memory://")


@app.job
def step(name: str) -> str:
    return name


def calls(names: str) -> list[Call[str]]:
    return [step.call(name) for name in names]


def edges(workflow: Workflow[Any]) -> set[tuple[str, str, DependencyKind]]:
    """(waits, for whom, how), by the names that the calls were given."""
    jobs = [node.new_job() for node in workflow.graph.nodes]
    names: dict[UUID, str] = {job.id: job.payload.value()["name"] for job in jobs}
    return {(names[job.id], names[one.job_id], one.kind) for job in jobs for one in job.dependencies}


def test_a_chain_waits_step_by_step() -> None:
    a, b, c = calls("abc")
    assert edges(chain(a, b, c)) == {("b", "a", DependencyKind.CHAIN), ("c", "b", DependencyKind.CHAIN)}
    assert edges(chain(a)) == set()


def test_a_fan_out_has_all_wait_for_the_one() -> None:
    a, b, c = calls("abc")
    assert edges(fan_out(a, b, c)) == {("b", "a", DependencyKind.FAN_OUT), ("c", "a", DependencyKind.FAN_OUT)}


def test_a_fan_in_has_the_one_wait_for_all() -> None:
    a, b, c = calls("abc")
    assert edges(fan_in(a, b, into=c)) == {("c", "a", DependencyKind.FAN_IN), ("c", "b", DependencyKind.FAN_IN)}


def test_workflows_are_put_together_at_their_heads_and_tails() -> None:
    a, b, c, d, e = calls("abcde")
    spread = fan_out(a, chain(b, c), d)
    assert edges(fan_in(spread, into=e)) == {
        ("b", "a", DependencyKind.FAN_OUT),
        ("c", "b", DependencyKind.CHAIN),
        ("d", "a", DependencyKind.FAN_OUT),
        ("e", "c", DependencyKind.FAN_IN),
        ("e", "d", DependencyKind.FAN_IN),
    }
    first, *_ = calls("f")
    assert ("a", "f", DependencyKind.CHAIN) in edges(chain(first, spread))
    assert ("e", "c", DependencyKind.CHAIN) in edges(chain(spread, e))


def test_a_workflow_that_is_put_into_another_stays_as_it_was() -> None:
    a, b, c = calls("abc")
    inner = chain(a, b)
    chain(c, inner)
    assert edges(inner) == {("b", "a", DependencyKind.CHAIN)}


def test_what_a_call_waits_for_by_its_own_options_is_kept() -> None:
    a, b = calls("ab")
    late = step.options(after=[a]).call("c")
    assert edges(chain(a, b, late)) == {
        ("b", "a", DependencyKind.CHAIN),
        ("c", "a", DependencyKind.AFTER),
        ("c", "b", DependencyKind.CHAIN),
    }


def test_calls_keep_the_order_in_which_they_were_given() -> None:
    a, b, c, d = calls("abcd")
    assert fan_in(fan_out(a, b, c), into=d).calls == (a, b, c, d)


def test_a_call_stands_once_in_a_workflow() -> None:
    a, b = calls("ab")
    with pytest.raises(UsageError, match="one call stands twice in a workflow; make a call for each job"):
        chain(a, b, a)


def test_calls_of_two_apps_do_not_mix() -> None:
    other = Holdfast("memory://").job(name="other")(lambda: None)
    with pytest.raises(UsageError, match="several apps"):
        chain(*calls("a"), other.call())


@pytest.mark.parametrize("build", [chain, lambda: fan_out(*calls("a")), lambda: fan_in(into=step.call("a"))])
def test_an_empty_workflow_is_refused(build: Any) -> None:
    with pytest.raises(UsageError, match="needs at least one call"):
        build()


def test_a_step_that_is_no_call_is_refused_with_the_fix() -> None:
    wrong: Any = step
    with pytest.raises(UsageError, match=r"<job type step> is not one; write: resize\.call\('a\.png'\)"):
        chain(wrong)
