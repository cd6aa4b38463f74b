"""app/signature.py: SIGNATURE-1 to SIGNATURE-3, and every way in which a function, a call or a payload can be wrong."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Never, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from holdfast.app.signature import FunctionSignature
from holdfast.core.errors import InvalidInput, UsageError
from holdfast.core.failures import PermanentError
from holdfast.core.payload import Payload
from holdfast.worker.context import Context


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Size:
    width: int
    height: int = 600


class Place(TypedDict):
    city: str
    zip: int


class Point(msgspec.Struct):
    x: float
    y: float


class Line(pydantic.BaseModel):
    name: str
    count: int = pydantic.Field(gt=0)
    at: datetime | None = None


@dataclass
class Order:
    id: UUID
    price: Decimal
    lines: list[Line]


class Foreign:
    pass


ID = UUID("6f1f3fd4-3f2c-4d2f-8b6e-0d5c0d6f9f1e")
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def resize(path: str, width: int = 800, *, tags: list[str] | None = None) -> dict[str, int]:
    return {path: width}


def nothing() -> None: ...


def signature(function: Callable[..., Any]) -> FunctionSignature:
    return FunctionSignature.of(function, name=function.__name__)


def taking(hint: Any) -> FunctionSignature:
    def handler(value: Any) -> None: ...

    handler.__annotations__["value"] = hint
    return signature(handler)


def giving(hint: Any) -> FunctionSignature:
    def handler() -> Any: ...

    handler.__annotations__["return"] = hint
    return signature(handler)


# of


def test_a_leading_context_is_no_part_of_the_payload() -> None:
    def handler(ctx: Context, path: str) -> None: ...

    of = signature(handler)
    assert of.wants_context
    assert of.bind(("a.png",), {}).value() == {"path": "a.png"}
    assert not signature(resize).wants_context


def test_what_a_call_must_give_is_known() -> None:
    assert signature(resize).required == {"path"}
    assert signature(nothing).required == frozenset()


def variadic(*paths: str) -> None: ...
def variadic_keywords(**options: int) -> None: ...
def positional(path: str, /) -> None: ...
def late_context(path: str, ctx: Context) -> None: ...
def unresolvable(path: "NoSuchClass") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def foreign(path: Foreign) -> None: ...
def nested_foreign(path: dict[str, list[Foreign]]) -> None: ...
def foreign_result() -> Path: ...  # type: ignore[empty-body]
def ambiguous(size: Size | Point) -> None: ...
def hidden(__path: str) -> None: ...
def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (variadic, "'paths' of 'variadic' takes any arguments"),
        (variadic_keywords, "take one list or dict"),
        (positional, "remove the '/'"),
        (late_context, "make it the first parameter"),
        (unresolvable, "NoSuchClass"),
        (foreign, "'path' of 'foreign' is annotated with Foreign"),
        (nested_foreign, "annotated with Foreign"),
        (foreign_result, "the result of 'foreign_result' is annotated with Path"),
        (ambiguous, "'size' of 'ambiguous'"),
        (hidden, "two underscores"),
        (generator, "collect it in a list"),
        (async_generator, "collect it in a list"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_function_that_cannot_be_a_handler_is_refused_with_the_fix(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refusal:
        signature(function)
    assert "\n" not in str(refusal.value)


def test_unannotated_parameters_and_results_take_what_json_has() -> None:
    def handler(anything, thing: object):  # type: ignore[no-untyped-def]
        return anything

    of = signature(handler)
    assert of.decode(of.bind(([1, {"a": None}], "x"), {})) == {"anything": [1, {"a": None}], "thing": "x"}
    assert of.decode_result(of.encode_result([1.5])) == [1.5]


# bind


def test_only_what_the_caller_gave_is_stored() -> None:
    of = signature(resize)
    assert of.bind(("a.png",), {}).value() == {"path": "a.png"}
    assert of.bind(("a.png", 300), {}).value() == {"path": "a.png", "width": 300}
    assert of.bind((), {"tags": ["x"], "path": "a.png"}).value() == {"path": "a.png", "tags": ["x"]}
    assert signature(nothing).bind((), {}).data == b"{}"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("a", 1, []), {}), (("a",), {"path": "b"}), (("a",), {"height": 1}), ((), {"width": 1})],
)
def test_wrong_arguments_raise_what_a_call_raises(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as call:
        resize(*args, **kwargs)
    with pytest.raises(TypeError) as bind:
        signature(resize).bind(args, kwargs)
    assert str(bind.value).startswith("resize()")
    assert call.type is bind.type


@pytest.mark.parametrize(
    ("hint", "value", "says"),
    [
        (Any, object(), "payload.value: cannot be written as JSON: a object is neither"),
        (Any, {"a": [Foreign()]}, "payload.value: cannot be written as JSON"),
        (Any, {(1, 2): 3}, "payload.value: cannot be written as JSON"),
        (str, "\ud800", "payload.value: cannot be written as JSON"),
        (float, float("nan"), "payload.value: is NaN or infinite"),
        (Any, {"a": [1.0, float("-inf")], "b": None}, "payload.value.a[1]: is NaN or infinite"),
        (Size, Size(width="wide"), "payload.value.width: expected `int`, got `str`"),  # type: ignore[arg-type]
        (int, "3", "payload.value: expected `int`, got `str`"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "payload.value: expected `int` >= 0"),
    ],
)
def test_what_json_cannot_carry_or_the_function_cannot_take_is_refused_by_name(
    hint: Any, value: Any, says: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        taking(hint).bind((value,), {})
    assert says in str(refusal.value)


def test_endless_nesting_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match=r"payload\.value"):
        taking(Any).bind((endless,), {})


# decode


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 2**80),
        (float, 3),
        (str, "naïve \0 🙂"),
        (bytes, b"\x00\xff"),
        (bool | None, None),
        (int | str | None, "x"),
        (Colour, Colour.BLUE),
        (dict[Colour, int], {Colour.RED: 1}),
        (Size, Size(width=3)),
        (Place, {"city": "Köln", "zip": 50667}),
        (Point, Point(1.5, -2)),
        (datetime, AT),
        (timedelta, timedelta(minutes=5)),
        (UUID, ID),
        (Decimal, Decimal("1.10")),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (Line, Line(name="bolt", count=2, at=AT)),
        (dict[str, list[Line | None]], {"a": [Line(name="nut", count=1), None]}),
        (Order, Order(id=ID, price=Decimal("9.99"), lines=[Line(name="bolt", count=2)])),
        (Any, {"a": [1, None, "null"]}),
    ],
)
def test_what_was_bound_comes_back_as_its_annotation_says(hint: Any, value: Any) -> None:
    of = taking(hint)
    decoded = of.decode(of.bind((value,), {}))["value"]
    assert decoded == value
    assert type(decoded) is type(value) or hint is float


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"path":1}', "path: expected `str`, got `int`"),
        (b'{"path":"a","tags":["x",3]}', "tags[1]: expected `str`, got `int`"),
        (b"{}", "missing required field `path`"),
        (b'{"path":"a","colour":"red"}', "unknown field `colour`"),
        (b"[]", "expected `object`, got `array`"),
        (b'{"path":', "truncated"),
    ],
)
def test_a_payload_that_does_not_fit_is_a_permanent_failure_that_names_the_field(text: bytes, says: str) -> None:
    with pytest.raises(PermanentError) as failure:
        signature(resize).decode(Payload(text))
    assert failure.value.code == "payload_mismatch"
    assert "the payload does not fit 'resize': " in str(failure.value)
    assert says in str(failure.value)


def test_a_payload_nested_too_deeply_does_not_fit() -> None:
    with pytest.raises(PermanentError, match="nested too deeply"):
        taking(Any).decode(Payload(b'{"value":' + b"[" * 100_000))


def test_a_model_that_does_not_fit_names_the_field_inside_it() -> None:
    with pytest.raises(PermanentError, match=r"value\[0\]: count: Input should be greater than 0") as failure:
        taking(list[Line]).decode(Payload.of({"value": [{"name": "bolt", "count": 0}]}))
    assert "\n" not in str(failure.value)


def test_raw_bytes_do_not_fit_a_function() -> None:
    with pytest.raises(PermanentError, match="raw bytes"):
        signature(resize).decode(Payload.of_bytes(b'{"path":"a"}'))


def test_a_handler_without_parameters_takes_an_empty_payload_and_nothing_else() -> None:
    of = signature(nothing)
    assert of.decode(Payload(b"{}")) == {}
    assert of.decode(Payload(b"{ }")) == {}
    with pytest.raises(PermanentError, match="unknown field `a`"):
        of.decode(Payload(b'{"a":1}'))


def test_what_the_payload_leaves_out_is_the_functions_own_default() -> None:
    shared = ["shared"]

    def handler(first: int = 1, second: list[str] = shared, third: Size | None = None) -> Any:
        return first, second, third

    of = signature(handler)
    assert handler(**of.decode(Payload(b"{}"))) == (1, shared, None)
    _, second, _ = handler(**of.decode(Payload(b'{"first":2}')))
    assert second is shared


# results


@pytest.mark.parametrize(
    ("hint", "value"),
    [(Size, Size(1, 2)), (Line, Line(name="a", count=1)), (list[Colour], [Colour.RED]), (datetime, AT), (bytes, b"\1")],
)
def test_a_result_comes_back_as_the_return_annotation_says(hint: Any, value: Any) -> None:
    of = giving(hint)
    assert of.decode_result(of.encode_result(value)) == value


def test_none_is_stored_as_nothing() -> None:
    of = signature(nothing)
    assert of.encode_result(None) is None
    assert of.decode_result(None) is None


def test_a_function_that_never_returns_is_no_mistake() -> None:
    assert giving(Never).encode_result(None) is None


@pytest.mark.parametrize("value", [object(), {"a": Foreign()}, "\udcff", [1.0, float("nan")], float("inf"), inspect])
def test_a_result_that_json_cannot_carry_is_a_permanent_failure(value: Any) -> None:
    with pytest.raises(PermanentError) as failure:
        giving(Any).encode_result(value)
    assert failure.value.code == "result_not_json"
    assert "'handler'" in str(failure.value)


def test_a_stored_result_that_does_not_fit_says_so() -> None:
    with pytest.raises(UsageError, match=r"return annotation at width: expected `int`, got `str`.*handle\.job"):
        giving(Size).decode_result(b'{"width":"wide"}')
