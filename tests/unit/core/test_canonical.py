"""Canonical JSON without recursion is the standard library's, to the byte."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.canonical import canonical
from holdfast.core.payload import Payload

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
@example({"b": [], "a": {}, "": [{}, [[]]]}, True, None)
@example({'"[{': "]}\\\\", "\\ud800": "\\ud800"}, True, 1)
def test_it_is_what_the_standard_library_gives(value: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert canonical(text) == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_the_last_of_two_equal_names_counts() -> None:
    assert canonical('{"a": 1, "b": 2, "a": [3]}') == '{"a":[3],"b":2}'


def test_nesting_has_no_bound_here() -> None:
    levels = 100_000
    assert canonical("[ " * levels + "]" * levels) == "[" * levels + "]" * levels
    assert len(Payload(b"[" * levels + b"]" * levels).digest()) == 32
