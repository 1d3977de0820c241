"""Hypothesis strategies for messages, derived from their schema."""

import functools
from typing import Any

from hypothesis import strategies as st

from barnabas.protocol.messages import APIS
from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.schema import ArrayOf, Field, Kind, StructOf, default_of, describe

FIRST_OWN_TAG = 10_000
"""Fields with such a tag are our own: no other implementation can be held against them."""

EVERY_MESSAGE: list[tuple[type[Any], int]] = [
    (cls, version) for api in APIS.values() for cls in (api.request, api.response) for version in api.versions
]

_FIXED: dict[str, st.SearchStrategy[Any]] = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "?": st.booleans(),
    "d": st.floats(allow_nan=False),
}


@functools.cache
def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Messages, or structs, whose fields hold anything where the version has them and the default elsewhere."""
    return st.builds(cls, *(_values(field, version) for field in describe(cls)))


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    default = st.builds(default_of, st.just(field))
    if not field.present_in(version) or (field.tag is not None and field.tag >= FIRST_OWN_TAG):
        return default
    values = _of_kind(field.kind, version)
    if field.nullable_in(version):
        values = st.none() | values
    return values if field.tag is None else default | values


def _of_kind(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed(code):
            return _FIXED[code]
        case Text():
            return st.text(max_size=8)
        case Blob() | RecordSet():
            return st.binary(max_size=8)
        case ArrayOf(item):
            return st.lists(_of_kind(item, version), max_size=2)
        case StructOf(cls):
            return messages(cls, version)
