"""How two servers' answers differ, and which differences are permitted (differences.toml).

An answer is compared leaf by leaf. A leaf has a path: the names and numbers that lead to it, joined by dots; the path
of an answer that is a word, or that stands against one, is `answer`. A permitted difference names the requests and the
paths that it covers, with `*` for any text, and may fix what Barnabas says there. Each of its patterns must be needed:
one that covers nothing is stale, and a failure.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.normalise import Value

PATH = Path(__file__).parent / "differences.toml"
ABSENT = "absent"
A_MESSAGE = "a message"
_WHOLE = "answer"
_SHOWN_LEAVES = 4


@dataclass(frozen=True, slots=True)
class Difference:
    """One leaf on which the servers do not agree; `request` is `group/scenario: name`."""

    request: str
    path: str
    kafka: Value
    barnabas: Value

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.kafka!r}, Barnabas {self.barnabas!r}"


@dataclass(slots=True)
class Permitted:
    """An entry of differences.toml."""

    reason: str
    requests: Sequence[str]
    paths: Sequence[str]
    barnabas: Sequence[Value] | None
    needed: set[str] = field(default_factory=set)

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is permitted by this entry; what covered it is remembered as needed."""
        if self.barnabas is not None and difference.barnabas not in self.barnabas:
            return False
        requests = [pattern for pattern in self.requests if _matches(pattern, difference.request)]
        paths = [pattern for pattern in self.paths if _matches(pattern, difference.path)]
        if requests and paths:
            self.needed.update(requests, paths)
        return bool(requests and paths)

    def stale(self) -> list[str]:
        """The patterns that covered nothing."""
        return [pattern for pattern in (*self.requests, *self.paths) if pattern not in self.needed]


def read_permitted(path: Path = PATH) -> list[Permitted]:
    """The entries of the file."""
    entries = tomllib.loads(path.read_text())["difference"]
    return [Permitted(one["reason"], one["requests"], one["paths"], one.get("barnabas")) for one in entries]


def differences(group: str, kafka: Mapping[str, Value], barnabas: Mapping[str, Value]) -> Iterator[Difference]:
    """All leaves on which the answers of a group differ, in the order of the requests."""
    for name in [*kafka, *(name for name in barnabas if name not in kafka)]:
        if name not in kafka or name not in barnabas:
            ours, theirs = barnabas.get(name, ABSENT), kafka.get(name, ABSENT)
            yield Difference(f"{group}/{name}", _WHOLE, _word(theirs), _word(ours))
        elif kafka[name] != barnabas[name]:
            yield from _differing_leaves(f"{group}/{name}", kafka[name], barnabas[name])


def report(found: Sequence[Difference]) -> str:
    """The differences for a reader: a paragraph per request, of each the first few leaves."""
    by_request: dict[str, list[Difference]] = {}
    for one in found:
        by_request.setdefault(one.request, []).append(one)
    lines = [f"{len(found)} differences in {len(by_request)} answers"]
    for request, leaves in by_request.items():
        lines += [request, *(f"    {one}" for one in leaves[:_SHOWN_LEAVES])]
        if len(leaves) > _SHOWN_LEAVES:
            lines.append(f"    and {len(leaves) - _SHOWN_LEAVES} more")
    return "\n".join(lines)


def _differing_leaves(request: str, kafka: Value, barnabas: Value) -> Iterator[Difference]:
    if not (isinstance(kafka, dict) and isinstance(barnabas, dict)):
        yield Difference(request, _WHOLE, _word(kafka), _word(barnabas))
        return
    theirs, ours = dict(_leaves("", kafka)), dict(_leaves("", barnabas))
    for path in [*theirs, *(path for path in ours if path not in theirs)]:
        pair = theirs.get(path, ABSENT), ours.get(path, ABSENT)
        if pair[0] != pair[1]:
            yield Difference(request, path, *pair)


def _leaves(path: str, value: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, one)
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from _leaves(f"{path}.{number}" if path else str(number), one)
    else:
        yield path, value


def _word(answer: Value) -> Value:
    return A_MESSAGE if isinstance(answer, dict) else answer


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
