"""The words between a worker and its children."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.worker.messages import (
    MAX_MESSAGE_BYTES,
    TO_WORKER,
    ErrorData,
    Frames,
    Logged,
    MessageTooLarge,
    Ready,
    frame,
    plain_text,
)


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 20)))
def test_messages_are_put_together_again_however_the_stream_was_cut(bodies: list[bytes], cuts: list[int]) -> None:
    sent = [Logged(number, body) for number, body in enumerate(bodies)]
    stream = b"".join(frame(message) for message in sent)
    frames = Frames()
    received = []
    for cut in (*cuts, len(stream)):
        piece, stream = stream[:cut], stream[cut:]
        received += [TO_WORKER.decode(body) for body in frames.feed(piece)]
    received += [TO_WORKER.decode(body) for body in frames.feed(stream)]
    assert received == sent


def test_a_length_that_can_only_be_nonsense_is_refused() -> None:
    assert Frames().feed(frame(Ready()))
    with pytest.raises(MessageTooLarge):
        Frames().feed((MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("error", [Unavailable("away"), HoldfastError("\ud800")])
def test_an_error_keeps_its_kind_and_its_text(error: HoldfastError) -> None:
    again = ErrorData.of(error).error()
    assert type(again) is type(error)
    assert str(again) == plain_text(str(error))


def test_an_error_of_another_kind_is_told_as_one_of_ours() -> None:
    assert str(ErrorData.of(OSError()).error()) == "OSError"
