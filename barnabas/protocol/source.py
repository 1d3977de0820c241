"""A Python function under construction: its lines, the values that it refers to and the names in it that are taken.

What the schema compiler writes with. Leaves out what the lines mean: `decoder_source` and `encoder_source` know that.
"""

import linecache
from collections.abc import Callable
from struct import Struct
from typing import Any, cast

from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.schema import ArrayOf, Kind, describe


class Source:
    """Collects the lines of one function; `title` stands for its file in tracebacks, which show them."""

    def __init__(self, title: str, **constants: Any) -> None:
        self._title = title
        self.constants: dict[str, Any] = {"Any": Any, **constants}
        """What the lines refer to, by name."""
        self.structs: dict[str, str] = {}
        """Of these, the functions of `struct`: how they are written in a module that has its `Struct`."""
        self._lines: list[str] = []
        self._taken = 0

    def line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        """Return a variable name that no other line uses."""
        self._taken += 1
        return f"{stem}_{self._taken}"

    def class_name(self, cls: type[Any]) -> str:
        name = cls.__name__
        known = self.constants.setdefault(name, cls)
        assert known is cls, f"two classes are named {name}"
        return name

    def unpack(self, codes: str) -> str:
        """Return the name of the function that unpacks this run of big-endian codes from a buffer at a position."""
        return self._struct("unpack", codes, "unpack_from")

    def pack(self, codes: str) -> str:
        """Return the name of the function that packs this run of big-endian codes."""
        return self._struct("pack", codes, "pack")

    @property
    def text(self) -> str:
        """The function as it would stand in a module."""
        return "\n".join(self._lines) + "\n"

    def compile(self) -> Callable[..., Any]:
        """Return the function."""
        text, filename = self.text, f"<{self._title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        made: dict[str, Any] = {}
        exec(compile(text, filename, "exec"), self.constants, made)  # noqa: S102 - the lines are ours, made from our classes
        (function,) = made.values()
        return cast("Callable[..., Any]", function)

    def _struct(self, stem: str, codes: str, method: str) -> str:
        name = f"{stem}_{codes.replace('?', 't')}"
        if name not in self.structs:
            self.structs[name] = f'Struct(">{codes}").{method}'
            self.constants[name] = getattr(Struct(">" + codes), method)
        return name


def size_of(codes: str) -> int:
    """Return how many bytes a run of big-endian codes takes."""
    return Struct(">" + codes).size


def least_bytes(kind: Kind, version: int, *, flexible: bool) -> int:
    """Return the fewest bytes that a value of this kind takes; what bounds a count before anything is allocated."""
    if isinstance(kind, Fixed):
        return size_of(kind.code)
    if isinstance(kind, Text):
        return 1 if flexible else 2
    if isinstance(kind, Blob | RecordSet | ArrayOf):
        return 1 if flexible else 4
    plain = (f for f in describe(kind.cls) if f.present_in(version) and (f.tag is None or not flexible))
    return sum(least_bytes(f.kind, version, flexible=flexible) for f in plain) + (1 if flexible else 0)
