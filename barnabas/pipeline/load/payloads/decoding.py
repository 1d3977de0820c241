"""From the values of records to a column, and an error for each value that cannot be read.

A value is read by itself: what its neighbours are has no say in it. One that is null, a tombstone, is null in the
column and no error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

_LONGEST_ERROR: Final = 500


@dataclass
class Decoded:
    """A column as long as what it was made of, null where `errors` has a text for the row."""

    column: pa.Array
    errors: dict[int, str] = field(default_factory=dict)


class PayloadDecoder(Protocol):
    """Makes the column `value`, of type `kind`."""

    @property
    def kind(self) -> pa.DataType:
        """The type of the column."""
        ...

    def decode(self, values: pa.Array) -> Decoded:
        """Read values, an array of binaries."""
        ...


class RawPayload:
    """Bytes as they are."""

    kind = pa.binary()

    def decode(self, values: pa.Array) -> Decoded:
        return Decoded(values)


class BadValue(Exception):
    """A value that cannot be read; the text says why."""


def decode_each(values: pa.Array, kind: pa.DataType, read: Callable[[bytes], Any]) -> Decoded:
    """Make a column of what `read` makes of each value; it raises BadValue."""
    found: list[Any] = []
    errors: dict[int, str] = {}
    for at, value in enumerate(values.to_pylist()):
        if value is None:
            found.append(None)
            continue
        try:
            found.append(read(value))
        except BadValue as error:
            errors[at] = str(error)[:_LONGEST_ERROR]
            found.append(None)
    return Decoded(_column(found, kind, errors), errors)


def _column(found: Sequence[Any], kind: pa.DataType, errors: dict[int, str]) -> pa.Array:
    """What Arrow makes of Python's objects; where it refuses some, each is tried by itself."""
    try:
        return pa.array(found, kind)
    except _REFUSALS:
        kept = list(found)
    for at, each in enumerate(found):
        try:
            pa.array([each], kind)
        except _REFUSALS as error:
            errors[at] = f"{kind} cannot hold it: {error}"[:_LONGEST_ERROR]
            kept[at] = None
    return pa.array(kept, kind)


_REFUSALS: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)
