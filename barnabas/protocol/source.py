"""A Python function under construction: its lines, the values that it refers to and the names in it that are taken.

What the schema compiler writes with. Leaves out what the lines mean: `decoder_source` and `encoder_source` know that.
"""

import linecache
from collections.abc import Callable
from struct import Struct
from typing import Any

from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.schema import ArrayOf, Kind, describe


class Source:
    """Collects the lines of one function, then compiles it so that tracebacks show them."""

    def __init__(self, **constants: Any) -> None:
        self._lines: list[str] = []
        self._constants: dict[str, Any] = dict(constants)
        self._taken = 0

    def line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        """Return a variable name that no other line uses."""
        self._taken += 1
        return f"{stem}_{self._taken}"

    def class_name(self, cls: type[Any]) -> str:
        return self._constant(f"{cls.__name__}_class", cls)

    def unpack(self, codes: str) -> str:
        """Return the name of the function that unpacks this run of big-endian codes from a buffer at a position."""
        return self._constant(f"unpack_{_spelled(codes)}", Struct(">" + codes).unpack_from)

    def pack(self, codes: str) -> str:
        """Return the name of the function that packs this run of big-endian codes."""
        return self._constant(f"pack_{_spelled(codes)}", Struct(">" + codes).pack)

    def compile(self, *, function: str, title: str) -> Callable[..., Any]:
        """Return the function of that name; `title` stands for its file in tracebacks."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<{title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._constants)  # noqa: S102 - the lines are ours, made from our classes
        made: Callable[..., Any] = self._constants[function]
        return made

    def _constant(self, name: str, value: Any) -> str:
        self._constants.setdefault(name, value)
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


def _spelled(codes: str) -> str:
    return codes.replace("?", "t")
