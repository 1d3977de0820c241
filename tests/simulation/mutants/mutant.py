"""A mutant: a known bug that is put back by replacing functions of the shipped code, from tests only.

It names what it replaces by its path, so that a function that moves or goes is noticed; it is in place for the length
of a `with`, in every module that has the function by name, and counts how often it was called.
"""

import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.simulation.plan import Scene

Rule = Callable[..., Any]
Patch = tuple[str, str, Callable[[Rule], Rule]]
"""Module, name in it, and what makes the replacement of the original."""

_OURS: Final = ("barnabas", "broker", "controller", "replication", "zk_schema")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug. More than one patch where the same rule is held in more than one place."""

    title: str
    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A bug, the story that shows it, and what the story's cluster is like (`run_plan`)."""

    bug: Mutant
    story: Callable[[Scene], Awaitable[None]]
    cluster: Mapping[str, Any] = field(default_factory=dict)


def mutant(title: str, *patches: Patch) -> Mutant:
    return Mutant(title, patches)


@contextmanager
def planted(bug: Mutant) -> Iterator[dict[str, int]]:
    """Within, the bug is there. What is handed out counts the calls of each replaced function."""
    calls: dict[str, int] = {}
    undo: list[tuple[Any, str, Any]] = []
    try:
        for module, name, make in bug.patches:
            owner, attribute = resolve(module, name)
            original = vars(owner)[attribute]
            calls[name] = 0
            replacement = _counted(name, calls, make(original))
            for place in {id(each): each for each in (owner, *_modules_with(attribute, original))}.values():
                undo.append((place, attribute, original))
                setattr(place, attribute, replacement)
        yield calls
    finally:
        for place, attribute, original in reversed(undo):
            setattr(place, attribute, original)


def resolve(module: str, name: str) -> tuple[Any, str]:
    """Who has the function as an attribute, and under which name."""
    owner: Any = importlib.import_module(module)
    *path, attribute = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    return owner, attribute


def _modules_with(attribute: str, original: Any) -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS and vars(module).get(attribute) is original:
            yield module


def _counted(name: str, calls: dict[str, int], replacement: Rule) -> Rule:
    def call(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return replacement(*arguments, **named)

    return call
