"""How a field of a job is described: where a store keeps it, and what else hangs on that.

The fields stand in ``job.NewJob``, each with its description beside its type and its default. What follows from
the descriptions is derived there, and nowhere listed again: the columns of a job's record, what goes into its options,
which jobs are plain, what a job that is read has of the one that was given, which texts have a limit.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, Final

_KEY: Final = "kept"

Read = Callable[[Mapping[str, Any], Any], Any]
"""From a record's columns and its decoded Options to the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Paths begin at the NewJob: ``payload.is_json``."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the job's record, and what is written into each."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Fields of Options, and what is written into each. They cost nothing where they are at their default."""
    read: Read | None = None
    """How it is read again; None where a job that is read need not have it as it was given, or not at all."""
    is_plain: bool = True
    """False: it asks for more than a record, so a job that has it takes the verbs' way."""
    max_characters: int | None = None
    """Of an optional text: a label that is stored, shown and checked, and means nothing to a store."""

    def metadata(self) -> dict[str, "Kept"]:
        """For ``dataclasses.field``."""
        return {_KEY: self}


def in_column(name: str, *, is_plain: bool = True, max_characters: int | None = None) -> dict[str, Kept]:
    """In a column of its own, which has the field's name."""
    return Kept(
        columns={name: name}, read=lambda row, _: row[name], is_plain=is_plain, max_characters=max_characters
    ).metadata()


def in_options(name: str, *, is_plain: bool = True, max_characters: int | None = None) -> dict[str, Kept]:
    """Among the options, under the field's name: for what is seldom given, and needed only with the job at hand."""
    return Kept(
        options={name: name},
        read=lambda _, options: getattr(options, name),
        is_plain=is_plain,
        max_characters=max_characters,
    ).metadata()


def elsewhere(*, is_plain: bool = True) -> dict[str, Kept]:
    """In other tables, or in what a store works out from it."""
    return Kept(is_plain=is_plain).metadata()


def kept(one: "Field[Any]") -> Kept:
    description: Kept = one.metadata[_KEY]
    return description
