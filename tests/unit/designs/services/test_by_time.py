"""The index behind ListJobs, beside a list that is sorted each time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.designs.services import by_time
from holdfast.designs.services.by_time import ByTime, page_of

ENTRIES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 999).map(lambda n: f"{n:03}")), unique=True)


def fill(entries: list[tuple[int, str]]) -> ByTime:
    index = ByTime()
    for entry in entries:
        index.add(entry)
    return index


def expected(entries: list[tuple[int, str]], *, is_descending: bool) -> list[str]:
    def key(entry: tuple[int, str]) -> tuple[int, str]:
        return (-entry[0] if is_descending else entry[0]), entry[1]

    return [job_id for _, job_id in sorted(entries, key=key)]


@settings(deadline=None)
@given(
    many=st.lists(ENTRIES, min_size=1, max_size=4),
    offset=st.integers(0, 60),
    size=st.integers(1, 20),
    down=st.booleans(),
)
def test_a_page_is_what_sorting_everything_would_give(
    many: list[list[tuple[int, str]]], offset: int, size: int, down: bool
) -> None:
    entries = list({entry for part in many for entry in part})
    unique = [
        [entry for entry in part if not any(entry in other for other in many[:at])] for at, part in enumerate(many)
    ]
    page = page_of([fill(part) for part in unique], offset=offset, size=size, is_descending=down)
    all_ids = expected(entries, is_descending=down)
    assert page.job_ids == all_ids[offset : offset + size]
    assert page.next_offset == (offset + size if offset + size < len(all_ids) else None)


@settings(deadline=None)
@given(entries=ENTRIES, data=st.data())
def test_what_was_removed_is_on_no_page(entries: list[tuple[int, str]], data: st.DataObject) -> None:
    index = fill(entries)
    gone = data.draw(st.lists(st.sampled_from(entries), unique=True)) if entries else []
    for entry in gone:
        index.remove(entry)
    left = [entry for entry in entries if entry not in gone]
    assert len(index) == len(left)
    assert page_of([index], offset=0, size=999, is_descending=False).job_ids == expected(left, is_descending=False)


def test_pieces_are_split_and_joined_without_a_gap() -> None:
    count = 5 * by_time.PIECE
    # From the outside in, so that pieces grow in the middle too.
    order = [
        place for pair in zip(range(count // 2), range(count - 1, count // 2 - 1, -1), strict=True) for place in pair
    ]
    entries = [(place, f"{place:06}") for place in order]
    index = fill(entries)
    all_ids = expected(entries, is_descending=True)
    for offset in (0, 1, by_time.PIECE - 1, by_time.PIECE, count - 1):
        assert page_of([index], offset=offset, size=7, is_descending=True).job_ids == all_ids[offset : offset + 7]
    for entry in entries[: count - 3]:
        index.remove(entry)
    left = expected(entries[count - 3 :], is_descending=False)
    assert page_of([index], offset=0, size=10, is_descending=False).job_ids == left
