"""A function's parameters and its result as JSON: how a call becomes a payload, and a payload a call again.

A payload is one JSON object of parameter names with only what the caller gave: a default belongs to the code that runs.
Everything is built once a function; what is done for every job is one call of a msgspec decoder.

SIGNATURE-1. What ``bind`` accepts, ``decode`` of the same function gives back.
SIGNATURE-2. A payload is decoded strictly: a missing, an unknown and a wrongly typed field are refused, by name.
SIGNATURE-3. JSON has no NaN and no infinity: they are refused, never written as null.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, Never, NoReturn, get_type_hints

import msgspec

from holdfast.core.errors import Fault, InvalidInput, UsageError
from holdfast.core.failures import PermanentError
from holdfast.core.payload import EMPTY, Payload
from holdfast.worker.context import Context

_NOTHING: Final = inspect.Parameter.empty
_NOT_CARRIED: Final = (TypeError, ValueError, RecursionError)
"""What an encoder raises for a value that JSON cannot carry; UnicodeEncodeError is a ValueError."""
_ATOMIC: Final = (type(None), bool, int, float, str, bytes, Enum)


class FunctionSignature:
    """What a function's parameters and annotations say: a worker's Signature, and what submits need beside it."""

    __slots__ = (
        "_decoder",
        "_inspected",
        "_names",
        "_positional",
        "_required",
        "_result_decoder",
        "name",
        "wants_context",
    )

    def __init__(
        self, *, name: str, wants_context: bool, inspected: inspect.Signature, hints: Mapping[str, Any], result: Any
    ) -> None:
        parameters = inspected.parameters.values()
        self.name = name
        self.wants_context = wants_context
        """The first parameter is the Context; it is given by the worker and no part of the payload."""
        self._inspected = inspected
        self._names = frozenset(inspected.parameters)
        self._positional = tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)
        self._required = frozenset(one.name for one in parameters if one.default is _NOTHING)
        struct = msgspec.defstruct(
            "Parameters",
            [_field(one, hints[one.name]) for one in parameters],
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(struct, dec_hook=_decode_foreign)
        self._result_decoder = msgspec.json.Decoder(result, dec_hook=_decode_foreign)

    @classmethod
    def of(cls, function: Callable[..., Any], *, name: str) -> "FunctionSignature":
        """Read a function's signature; UsageError with the fix where it cannot be a handler's."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(f"{name!r} is a generator; a handler returns its result: collect it in a list")
        hints = _hints(function, name)
        parameters = list(inspect.signature(function).parameters.values())
        wants_context = bool(parameters) and _is_context(hints.get(parameters[0].name))
        if wants_context:
            del parameters[0]
        types = {one.name: _parameter_type(one, hints.get(one.name, Any), name) for one in parameters}
        return cls(
            name=name,
            wants_context=wants_context,
            inspected=inspect.Signature(parameters),
            hints=types,
            result=_result_type(hints.get("return", Any), name),
        )

    @property
    def required(self) -> frozenset[str]:
        """The parameters that a call must give."""
        return self._required

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Payload:
        """The payload of a call. TypeError as a call would raise it; InvalidInput naming what does not fit."""
        given = self._given(args, kwargs)
        if not given:
            return EMPTY
        try:
            data = _ENCODER.encode(given)
            place = _not_finite(given) if b"null" in data else None
        except _NOT_CARRIED as error:
            raise self._not_carried(given, error) from error
        if place is not None:
            raise _invalid(place, "is NaN or infinite, which JSON cannot carry")
        try:
            # Here the caller can still mend what a worker could only refuse.
            self._decoder.decode(data)
        except _NOT_CARRIED as error:
            raise _invalid(*_field_and_problem(error)) from error
        return Payload(data)

    def decode(self, payload: Payload) -> dict[str, Any]:
        """The keyword arguments; PermanentError that names the field where the payload does not fit."""
        data = payload.data
        if data == b"{}" and not self._required:
            return {}
        if not payload.is_json:
            raise self._mismatch("it is raw bytes, and a function takes a JSON object of its parameters")
        try:
            return msgspec.structs.asdict(self._decoder.decode(data))
        except _NOT_CARRIED as error:
            field, problem = _field_and_problem(error)
            raise self._mismatch(f"{field}: {problem}" if field else problem) from error

    def encode_result(self, value: Any) -> bytes | None:
        """What a handler returned, as it is stored; PermanentError where JSON cannot carry it."""
        if value is None:
            return None
        try:
            data = _ENCODER.encode(value)
            place = _not_finite(value) if b"null" in data else None
        except _NOT_CARRIED as error:
            raise self._result_not_json(str(error)) from error
        if place is not None:
            raise self._result_not_json(f"{place or 'it'} is NaN or infinite")
        return data

    def decode_result(self, data: bytes | None) -> Any:
        """A stored result as the function's return annotation says."""
        if data is None:
            return None
        try:
            return self._result_decoder.decode(data)
        except _NOT_CARRIED as error:
            field, problem = _field_and_problem(error)
            place = f" at {field}" if field else ""
            raise UsageError(
                f"the stored result of {self.name!r} does not fit the function's return annotation{place}: {problem}; "
                "read it as it is with handle.job()"
            ) from error

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        if not args and kwargs.keys() == self._names:
            return kwargs
        given = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        # Fewer than were given: too many positional ones, or one given twice.
        if len(given) < len(args) + len(kwargs) or not self._required <= given.keys() <= self._names:
            self._refuse_call(args, kwargs)
        return given

    def _refuse_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
        try:
            self._inspected.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        raise AssertionError(f"{self.name} refuses what inspect binds: {args} {kwargs}")

    def _not_carried(self, given: Mapping[str, Any], error: Exception) -> InvalidInput:
        for name, value in given.items():
            try:
                _ENCODER.encode(value)
            except _NOT_CARRIED as cause:
                return _invalid(name, f"cannot be written as JSON: {cause}")
        return _invalid("", f"cannot be written as JSON: {error}")

    def _mismatch(self, problem: str) -> PermanentError:
        return PermanentError(f"the payload does not fit {self.name!r}: {problem}", code="payload_mismatch")

    def _result_not_json(self, problem: str) -> PermanentError:
        return PermanentError(
            f"the result of {self.name!r} cannot be written as JSON: {problem}", code="result_not_json"
        )


# building


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:
        raise UsageError(
            f"the annotations of {name!r} cannot be resolved: {error}; "
            "import their types at run time and define them at module level, before the function"
        ) from error


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Context)


def _parameter_type(parameter: inspect.Parameter, hint: Any, name: str) -> Any:
    what = f"parameter {parameter.name!r} of {name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise UsageError(
            f"{what} takes any arguments; a payload has named parameters: write them out, or take one list or dict"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"{what} is positional-only; a payload has named parameters: remove the '/'")
    if parameter.name.startswith("__"):
        raise UsageError(f"{what} starts with two underscores; give it another name")
    if _is_context(hint):
        raise UsageError(f"{what} is the Context; make it the first parameter")
    return _carried_type(hint, what)


def _result_type(hint: Any, name: str) -> Any:
    if hint in (NoReturn, Never):
        return Any
    return _carried_type(hint, f"the result of {name!r}")


def _carried_type(hint: Any, what: str) -> Any:
    if hint is object:
        return Any
    try:
        info = msgspec.inspect.type_info(hint)
        msgspec.json.Decoder(hint, dec_hook=_decode_foreign)
    except Exception as error:
        raise UsageError(f"{what} has an annotation that JSON cannot be decoded to: {error}") from error
    for foreign in _foreign_types(info, set()):
        if not _is_pydantic(foreign):
            raise UsageError(
                f"{what} is annotated with {foreign.__name__}, which JSON cannot be decoded to; use a dataclass, "
                "a TypedDict, a msgspec.Struct, a pydantic model or a plain type such as str or list"
            )
    return hint


def _foreign_types(info: Any, seen: set[int]) -> Iterator[type]:
    """The classes inside a type that msgspec does not know itself."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        if info.cls is not object:
            yield info.cls
    elif isinstance(info, tuple):
        for one in info:
            yield from _foreign_types(one, seen)
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        for name in info.__struct_fields__:
            if name not in {"default", "default_factory", "cls", "values"}:
                yield from _foreign_types(getattr(info, name), seen)


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    default = parameter.default
    if default is _NOTHING:
        return (parameter.name, hint)
    if isinstance(default, _ATOMIC):
        return (parameter.name, hint, default)
    # The very object, as in a call: msgspec would copy an empty list and refuse a full one.
    return (parameter.name, hint, msgspec.field(default_factory=lambda: default))


# types that msgspec leaves to us: pydantic's models, without ever importing pydantic


def _is_pydantic(kind: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _encode_foreign(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} is neither a plain value nor a dataclass, struct, enum or model")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_foreign)


def _decode_foreign(kind: type, value: Any) -> Any:
    if kind is object:
        return value
    if not _is_pydantic(kind):
        raise TypeError(f"cannot be decoded to {kind.__name__}")
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_first_pydantic_error(error)) from error


def _first_pydantic_error(error: Any) -> str:
    # msgspec adds where the model is; what is inside it, only pydantic knows.
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])


# problems


def _field_and_problem(error: Exception) -> tuple[str, str]:
    """``Expected `int`, got `str` - at `$.width``` as ("width", "expected `int`, got `str`")."""
    problem, _, place = str(error).partition(" - at `$")
    if isinstance(error, RecursionError):
        problem = "is nested too deeply"
    return place.rstrip("`").lstrip("."), problem[:1].lower() + problem[1:]


def _invalid(field: str, problem: str) -> InvalidInput:
    return InvalidInput([Fault(field=f"payload.{field}" if field else "payload", problem=problem)])


def _not_finite(value: Any) -> str | None:
    """Where in a value a NaN or an infinity is: ``sizes[3]``; "" where it is the value itself."""
    place = _not_finite_in(msgspec.to_builtins(value, enc_hook=_encode_foreign))
    return None if place is None else place.removeprefix(".")


def _not_finite_in(value: Any) -> str | None:
    match value:
        case float():
            return None if math.isfinite(value) else ""
        case dict():
            places = ((f".{key}", one) for key, one in value.items())
        case list() | tuple():
            places = ((f"[{index}]", one) for index, one in enumerate(value))
        case _:
            return None
    for step, one in places:
        rest = _not_finite_in(one)
        if rest is not None:
            return step + rest
    return None
