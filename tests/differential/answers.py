"""The kept answers of Kafka 2.7.2: one JSON file per group, laid out so that a change shows as a few changed lines.

A long answer that equals an earlier one of its file is kept as `{"same as": name of that request}`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.differential.normalise import Value

DIRECTORY = Path(__file__).parent / "answers"
_WIDTH = 120
_LONG = 150
_SAME_AS = "same as"


def load(group: str) -> dict[str, Value]:
    """The answers of a group by the names of its requests, in order."""
    kept: dict[str, Value] = json.loads(path_of(group).read_text())
    return {name: _original(kept, answer) for name, answer in kept.items()}


def store(group: str, answers: Mapping[str, Value]) -> None:
    """Keep the answers of a group in place of those that were kept before."""
    kept: dict[str, Value] = {}
    first_with: dict[str, str] = {}
    for name, answer in answers.items():
        text = json.dumps(answer)
        if len(text) > _LONG and text in first_with:
            kept[name] = {_SAME_AS: first_with[text]}
        else:
            first_with[text] = name
            kept[name] = answer
    DIRECTORY.mkdir(exist_ok=True)
    path_of(group).write_text(layout(kept) + "\n")


def _original(kept: Mapping[str, Value], answer: Value) -> Value:
    if isinstance(answer, dict) and _SAME_AS in answer:
        return kept[str(answer[_SAME_AS])]
    return answer


def path_of(group: str) -> Path:
    return DIRECTORY / f"{group}.json"


def layout(value: Value, *, indent: int = 0, lead: int = 0) -> str:
    """The value as JSON: on one line where it fits, else with an item per line. `lead` is what stands before it."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + lead <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + 1
    if isinstance(value, list):
        items = [layout(one, indent=inner, lead=inner + 1) for one in value]
        opening, closing = "[", "]"
    else:
        items = []
        for key, one in value.items():
            head = json.dumps(key, ensure_ascii=False) + ": "
            items.append(head + layout(one, indent=inner, lead=inner + len(head) + 1))
        opening, closing = "{", "}"
    separator = ",\n" + " " * inner
    return f"{opening}\n{' ' * inner}{separator.join(items)}\n{' ' * indent}{closing}"
