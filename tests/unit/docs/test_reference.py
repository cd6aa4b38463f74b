"""The reference says what the code says: names, parameters, defaults, limits, variables, codes, log fields."""

import ast
import dataclasses
import inspect
import logging
import re
import typing
from collections.abc import Iterator
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.app import SubmitOptions, WorkflowHandle
from holdfast.app.management import ListOptions
from holdfast.app.options import JobOptions, PeriodicOptions
from holdfast.cli import ENVIRONMENT
from holdfast.core import commands, errors, failures, job, limits
from holdfast.logs import places
from holdfast.telemetry import json_lines
from holdfast.wiring import LOGS_VARIABLE, URL_VARIABLE
from holdfast.worker import log_lines, options, worker

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src" / "holdfast").rglob("*.py"))
OTHERS = {
    "ListOptions": ListOptions,
    "JobOptions": JobOptions,
    "PeriodicOptions": PeriodicOptions,
    "SubmitOptions": SubmitOptions,
    "WorkflowHandle": WorkflowHandle,
    "Tick": commands.Tick,
    "Attempt": job.Attempt,
    "Failure": failures.Failure,
    "Progress": job.Progress,
    "AttemptLog": job.AttemptLog,
    "Page": commands.Page,
    "Filter": commands.Filter,
    "CancelAnswer": commands.CancelAnswer,
    "ReplayAnswer": commands.ReplayAnswer,
    "ReplayPage": commands.ReplayPage,
    "QueueStats": commands.QueueStats,
    "Worker": worker.Worker,
    "WorkerInfo": commands.WorkerInfo,
}
FOR_OTHER_LAYERS = {
    "Holdfast": {"on_store", "open_loop", "opened_on"},
    "JobType": {"given", "handler", "new_job"},
    "BoundJobType": {"handler"},
    "Call": {"given", "handle", "handler", "new_job", "payload", "runtime", "take_id"},
    "Workflow": {"graph"},
    "Worker": {"options"},
    "Retry": {"delay_seconds", "faults", "from_data", "retries", "to_data"},
}


def text_of(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def shown() -> Iterator[tuple[ast.stmt, Any]]:
    """Each class and function on the page, with what it is in the code."""
    for block in re.findall(r"```pyi\n(.*?)```", text_of("python.md"), re.DOTALL):
        for node in ast.parse(block).body:
            assert isinstance(node, ast.ClassDef | ast.FunctionDef)
            yield node, OTHERS.get(node.name) or getattr(holdfast, node.name)


SHOWN = list(shown())
CLASSES = [(node, kind) for node, kind in SHOWN if isinstance(node, ast.ClassDef)]


def name_of(value: Any) -> str:
    return value.name if isinstance(value, ast.ClassDef | ast.FunctionDef) else getattr(value, "__name__", "")


def functions(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {one.name: one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def fields(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    found = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    return {ast.unparse(one.target): one.value for one in found}


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Any]:
    """By name, with the default where there is one."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found: dict[str, Any] = dict.fromkeys((one.arg for one in positional), inspect.Parameter.empty)
    found |= {
        one.arg: ast.literal_eval(default)
        for one, default in zip(reversed(positional), reversed(arguments.defaults), strict=False)
    }
    if arguments.vararg is not None:
        found[arguments.vararg.arg] = inspect.Parameter.empty
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[one.arg] = inspect.Parameter.empty if default is None else ast.literal_eval(default)
    if arguments.kwarg is not None:
        found[arguments.kwarg.arg] = inspect.Parameter.empty
    return {name: value for name, value in found.items() if name not in ("self", "cls")}


def parameters_in_code(function: Any) -> dict[str, Any]:
    given = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in given if one.name not in ("self", "cls")}


def public_names(kind: type) -> set[str]:
    """Methods and properties of a class and of its bases, and what its instances are given."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("holdfast")]
    names = {name for base in ours for name in vars(base)}
    for base in ours:
        names |= set(re.findall(r"self\.(\w+)(?::| =)", inspect.getsource(base)))
    return {name for name in names if not name.startswith("_")} - FOR_OTHER_LAYERS.get(kind.__name__, set())


def first_column(text: str) -> set[str]:
    """What a table's rows begin with."""
    return set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def test_every_public_name_stands_in_the_reference() -> None:
    on_pages = {name_of(node) for node, _ in SHOWN} | first_column(text_of("errors.md"))
    assert set(holdfast.__all__) - on_pages == set()


@pytest.mark.parametrize(("node", "kind"), SHOWN, ids=name_of)
def test_parameters_and_defaults_are_the_code_s(node: ast.stmt, kind: Any) -> None:
    if isinstance(node, ast.FunctionDef):
        assert parameters_of(node) == parameters_in_code(kind)
        return
    assert isinstance(node, ast.ClassDef)
    for name, function in functions(node).items():
        assert parameters_of(function) == parameters_in_code(getattr(kind, name)), name
        is_async = inspect.iscoroutinefunction(getattr(kind, name))
        assert isinstance(function, ast.AsyncFunctionDef) == is_async, name


@pytest.mark.parametrize(("node", "kind"), CLASSES, ids=name_of)
def test_what_a_class_has_is_what_the_code_has(node: ast.ClassDef, kind: Any) -> None:
    on_page = set(fields(node)) | {name for name in functions(node) if not name.startswith("_")}
    if typing.is_typeddict(kind):
        assert on_page == set(typing.get_type_hints(kind))
    elif dataclasses.is_dataclass(kind) and not functions(node):
        assert on_page == {field.name for field in dataclasses.fields(kind)}
    elif issubclass(kind, Enum):
        members = {one.targets[0].id: one.value for one in node.body if isinstance(one, ast.Assign)}  # type: ignore[attr-defined]
        assert {name: ast.literal_eval(value) for name, value in members.items()} == {
            member.name: member.value for member in kind
        }
    elif not issubclass(kind, Exception | holdfast.Retry):
        assert on_page == public_names(kind)


@pytest.mark.parametrize(("node", "kind"), CLASSES, ids=name_of)
def test_defaults_of_a_record_are_the_code_s(node: ast.ClassDef, kind: Any) -> None:
    if not dataclasses.is_dataclass(kind) or functions(node):
        return
    defaults = {
        field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING
    }
    assert {name: ast.literal_eval(value) for name, value in fields(node).items() if value is not None} == defaults


def test_the_tables_of_limits_are_the_code_s() -> None:
    tables = text_of("settings.md").partition("## Defaults")[2]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", tables, re.MULTILINE))
    wanted = {name: value for name, value in vars(limits).items() if name.isupper()}
    wanted["LOG_LIMIT_BYTES"] = log_lines.LOG_LIMIT_BYTES
    assert {name: value if name == "DEFAULT_QUEUE" else number(value) for name, value in rows.items()} == wanted


def number(text: str) -> float:
    return float(Fraction(text.replace(",", "")))


def test_the_table_of_environment_variables_names_all_that_are_read() -> None:
    table = between(text_of("settings.md"), "## Environment variables", "##")
    named = {name for row in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    read = {URL_VARIABLE, LOGS_VARIABLE, options.NAME_VARIABLE, *places.ENDPOINT_VARIABLES, *ENVIRONMENT}
    assert read <= named
    spoken = {name for path in SOURCES for name in re.findall(r'"((?:HOLDFAST|AWS)_\w+)"', path.read_text("utf-8"))}
    assert spoken - named == {"HOLDFAST_SUPERVISED"}  # between a supervisor and its children


def test_the_tree_of_errors_is_the_code_s() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (?:`(\w+)`|–) \|", text_of("errors.md"), re.MULTILINE)
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.HoldfastError)]
    parents = {kind: next(iter(kind.__bases__)).__name__ for kind in kinds}
    parents[errors.HoldfastError] = ""
    wanted = {(kind.__name__, kind.code, parents[kind]) for kind in kinds}
    assert set(rows) == wanted


def test_the_codes_of_failures_are_the_code_s() -> None:
    table = text_of("errors.md").partition("## Codes of failures")[2]
    named = first_column(table)
    used = {code for path in ours() for code in re.findall(r'\bcode(?:: str)? ?= ?"(\w+)"', path.read_text("utf-8"))}
    of_errors = {kind.code for kind in vars(errors).values() if hasattr(kind, "code")}
    assert named == used - of_errors


def ours() -> list[Path]:
    return [path for path in SOURCES if path.name != "sample.py" and "testing" not in path.parts]


def test_the_fields_of_logs_are_the_code_s() -> None:
    page = text_of("log-fields.md")
    always = first_column(between(page, "Always there:", "Where they"))
    record = json_lines.JsonFormatter(service="a").format(logging_record())
    assert always == set(re.findall(r'"(\w+)": ', record))
    kept = first_column(page.partition("## An execution log")[2])
    assert kept == set(log_lines.Line.__struct_fields__)


def test_the_events_of_a_worker_are_the_code_s() -> None:
    table = between(text_of("log-fields.md"), "Events of a worker:", "##")
    named = {name for row in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    used = {name for path in ours() for name in re.findall(r'"event": "(\w+)"', path.read_text("utf-8"))}
    assert named == used


def logging_record() -> logging.LogRecord:
    return logging.makeLogRecord({"name": "holdfast", "levelname": "INFO", "msg": "hello"})
