"""What a message is: its fields, the versions that have them, and the pair of messages that an API is.

A message is a dataclass; the class is the schema. An annotation with a wire type says what a field is, `field(...)` in
which versions it is there:

    @struct
    class Partition:
        index: I32 = 0
        leader_epoch: I32 = field(default=-1, since=7, ignorable=True)

    @message(versions=(0, 9), flexible=9)
    class SomeRequest:
        partitions: list[Partition] | None = field(default_factory=list, nullable_since=1)

Every field has a default, which is also what a decoded message holds where the version lacks the field. A field that
the version lacks is left out when it is `ignorable` or holds its default, and refused otherwise. A nested struct has
the version and the flexibility of the message around it. `describe` turns a class into values; the compiler reads
nothing else.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, dataclass_transform, overload

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text

T = TypeVar("T")

NEVER: Final = 0x7FFF
"""A version that no message reaches."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array; its items are of one kind."""

    item: "Kind"


@dataclasses.dataclass(frozen=True, slots=True)
class StructOf:
    """A nested struct, held as an instance of its class."""

    cls: type[Any]


Kind: TypeAlias = Fixed | Text | Blob | RecordSet | ArrayOf | StructOf


@dataclasses.dataclass(frozen=True, slots=True)
class _Presence:
    since: int = 0
    until: int = NEVER
    nullable_since: int = 0
    tag: int | None = None
    ignorable: bool = False
    compact: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct: present from version `since` to `until`, in the tag section when it has a tag.

    It may be null from `nullable_since` on. One that is not `compact` keeps its classic length in flexible versions.
    """

    name: str
    kind: Kind
    default: Any
    since: int
    until: int
    nullable_since: int
    tag: int | None
    ignorable: bool
    compact: bool

    def present_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return version >= self.nullable_since


@overload
def field(
    *,
    default: T,
    since: int = 0,
    until: int = NEVER,
    nullable_since: int = 0,
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> T: ...


@overload
def field(
    *,
    default_factory: Callable[[], T],
    since: int = 0,
    until: int = NEVER,
    nullable_since: int = 0,
    tag: int | None = None,
    ignorable: bool = False,
) -> T: ...


def field(*, default: Any = dataclasses.MISSING, default_factory: Any = dataclasses.MISSING, **presence: Any) -> Any:
    """Declare a field that is not in every version, or not plain; a plain one needs only `name: I32 = 0`."""
    metadata = {"presence": _Presence(**presence)}
    return dataclasses.field(default=default, default_factory=default_factory, metadata=metadata)


@dataclass_transform(field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make a class a struct that messages nest.

    All share what compares and shows them: made for each of some 300 classes, it was half of what their import costs.
    """
    cls.__eq__ = _equal  # type: ignore[method-assign]
    cls.__repr__ = _show  # type: ignore[method-assign]
    return dataclasses.dataclass(slots=True, eq=False, repr=False)(cls)


def _equal(self: Any, other: object) -> bool:
    return other.__class__ is self.__class__ and _values(self) == _values(other)


def _show(self: Any) -> str:
    pairs = zip(type(self).__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _values(of: Any) -> tuple[Any, ...]:
    return tuple(getattr(of, name) for name in type(of).__match_args__)


@dataclass_transform(field_specifiers=(field,))
def message(*, versions: tuple[int, int], flexible: int | None = None) -> Callable[[type[T]], type[T]]:
    """Make a class a message of the versions `versions[0]` to `versions[1]`, both included.

    From the version `flexible` on lengths are compact and every struct ends with tagged fields (KIP-482).
    """

    def wrap(cls: type[T]) -> type[T]:
        made = struct(cls)
        made.__wire__ = MessageVersions(range(versions[0], versions[1] + 1), flexible)  # type: ignore[attr-defined]
        return made

    return wrap


@dataclasses.dataclass(frozen=True, slots=True)
class MessageVersions:
    """The versions of a message, and the first of them that is flexible, if one is."""

    versions: range
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


def versions_of(cls: type[Any]) -> MessageVersions:
    """Return what `message` said of a class."""
    declared = getattr(cls, "__wire__", None)
    assert isinstance(declared, MessageVersions), f"{cls.__name__} is no message"
    return declared


def describe(cls: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a message or a struct, in wire order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_field(declared, hints[declared.name]) for declared in dataclasses.fields(cls))


def default_of(declared: Field) -> Any:
    """Return the field's default; a fresh one where it is mutable."""
    if isinstance(declared.kind, StructOf):
        return declared.kind.cls()
    return [] if declared.default == [] else declared.default


def _field(declared: "dataclasses.Field[Any]", hint: Any) -> Field:
    presence: _Presence = declared.metadata.get("presence", _Presence())
    optional = _is_optional(hint)
    if declared.default is not dataclasses.MISSING:
        default = declared.default
    else:
        assert declared.default_factory is not dataclasses.MISSING, f"{declared.name} has no default"
        default = declared.default_factory()
    return Field(
        name=declared.name,
        kind=_kind(hint),
        default=default,
        since=presence.since,
        until=presence.until,
        nullable_since=presence.nullable_since if optional else NEVER,
        tag=presence.tag,
        ignorable=presence.ignorable,
        compact=presence.compact,
    )


def _is_optional(hint: Any) -> bool:
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return type(None) in typing.get_args(hint)


def _kind(hint: Any) -> Kind:
    if typing.get_origin(hint) is Annotated:
        marker = hint.__metadata__[0]
        assert isinstance(marker, Fixed | Text | Blob | RecordSet)
        return marker
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is list:
        return ArrayOf(_kind(typing.get_args(hint)[0]))
    assert dataclasses.is_dataclass(hint), f"{hint} is no wire type"
    assert isinstance(hint, type)
    return StructOf(hint)


class Api:
    """An API: its key and its pair of messages, which have the same versions."""

    __slots__ = ("flexible", "key", "request", "response", "versions")

    def __init__(self, key: ApiKey, request: type[Any], response: type[Any]) -> None:
        declared = versions_of(request)
        assert versions_of(response) == declared
        self.key = key
        self.request = request
        self.response = response
        self.versions = declared.versions
        self.flexible = declared.flexible

    def __repr__(self) -> str:
        return f"Api({self.key.name}, versions {self.versions[0]}-{self.versions[-1]})"

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible
