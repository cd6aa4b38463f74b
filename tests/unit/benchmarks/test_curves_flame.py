"""From a sampler's lines to towers, parts and a picture."""

from collections import Counter
from xml.etree import ElementTree

import pytest

from benchmarks.curves.flame.fold import (
    Box,
    Tower,
    at_work,
    boxes,
    landmarks,
    parts,
    read_stacks,
    tidied,
    tidy,
    towers,
)
from benchmarks.curves.flame.picture import WIDTH, flame

A, B, C = "a (app.py)", "b (app.py)", "c (lib.c)"


def test_lines_of_one_function_are_one_frame() -> None:
    text = "a (app.py:1);b (app.py:7) 2\na (app.py:3);b (app.py:9) 3\na (app.py:1) 1\n\n"
    assert read_stacks(text) == {(A, B): 5, (A,): 1}


def test_a_frame_whose_name_has_spaces_is_read_whole() -> None:
    assert read_stacks("<module> (x y.py:1);operator new (lib.so) 4") == {
        ("<module> (x y.py)", "operator new (lib.so)"): 4
    }


@pytest.mark.parametrize(
    ("stack", "is_at_work"),
    [
        ((A, B), True),
        ((A, "epoll_wait (libc.so.6)"), False),
        ((A, "PyThread_acquire_lock_timed (libpython.so)", "0x1f (libc.so.6)", "0x2f (libc.so.6)"), False),
        ((A, "fdatasync (libc.so.6)"), True),
        (("select (mine.py)", A, B, C, "d (lib.c)"), True),
    ],
)
def test_threads_that_wait_for_something_to_do_are_not_at_work(stack: tuple[str, ...], is_at_work: bool) -> None:
    assert (stack in at_work({stack: 1})) == is_at_work


def test_noise_repeats_and_the_loop_below_are_tidied_away() -> None:
    stack = (
        *("0x7f (libc.so.6)", "<module> (holdfast)", "run (holdfast/cli/worker.py)", "Runner.run (asyncio/runners.py)"),
        *("uv_run (core.c)", "Py_DECREF (object.h)", A, A, "task_step (_asynciomodule.c)", B, "Py_DECREF (object.h)"),
    )
    assert tidy(stack) == (A, "task_step (_asynciomodule.c)", B)


def test_of_a_stack_that_is_all_machinery_the_innermost_frame_is_left() -> None:
    assert tidy(("Runner.run (asyncio/runners.py)", "uv_run (core.c)")) == ("uv_run (core.c)",)
    assert tidy(("0x1 (libc.so.6)", "0x2 (libc.so.6)")) == ("0x2 (libc.so.6)",)


def test_stacks_that_tidying_makes_the_same_are_one() -> None:
    assert tidied({("0x1 (libc.so.6)", A): 2, ("0x2 (libc.so.6)", A): 3}) == {(A,): 5}


def test_a_tower_is_as_wide_as_the_samples_it_stands_in_and_counts_once_in_each() -> None:
    assert towers({(A, B, A): 3, (A,): 1}) == [
        Tower(frame=A, total=1.0, own=1.0),
        Tower(frame=B, total=0.75, own=0.0),
    ]


def test_of_a_chain_of_calls_the_outermost_is_named_and_what_does_much_itself() -> None:
    stacks = {(A, B, C): 95, (A, B, "d (lib.c)"): 4, (A,): 1}
    assert [tower.frame for tower in landmarks(stacks, narrowest=0.02)] == [A, C, "d (lib.c)"]


def test_a_part_is_that_of_the_innermost_frame_that_is_known() -> None:
    names = {"(app.py)": "the app", "gc (": "garbage collector"}
    stacks = {(A, C): 5, (A, "gc (lib.c)"): 3, (C,): 2}
    assert parts(stacks, names) == {"the app": 0.5, "garbage collector": 0.3, "other": 0.2}


def test_boxes_lie_on_their_callers_side_by_side() -> None:
    stacks = Counter({(A, B): 2, (A, C): 1, (B,): 1})
    assert boxes(stacks) == [
        Box(frame="all", start=0.0, width=1.0, depth=0),
        Box(frame=A, start=0.0, width=0.75, depth=1),
        Box(frame=B, start=0.0, width=0.5, depth=2),
        Box(frame=C, start=0.5, width=0.25, depth=2),
        Box(frame=B, start=0.75, width=0.25, depth=1),
    ]


def test_what_is_too_narrow_to_see_is_left_out_and_keeps_its_place() -> None:
    found = boxes({(A,): 1, (B,): 99}, narrowest=0.05)
    assert [(box.frame, box.start) for box in found] == [("all", 0.0), (B, 0.01)]


def test_the_picture_is_valid_and_says_what_each_box_is() -> None:
    text = flame(boxes({("<listcomp> (app.py)", B): 1, (A,): 3}), title="a & b")
    root = ElementTree.fromstring(text)
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["all: 100.0%", "<listcomp> (app.py): 25.0%", "b (app.py): 25.0%", "a (app.py): 75.0%"]
    widths = [float(box.get("width", "0")) for box in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert max(widths) <= WIDTH
