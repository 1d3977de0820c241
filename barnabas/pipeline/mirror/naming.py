"""What topics are called at the target, and which are mirrored at all. Pure.

With aliases a topic's name tells where it has been: `b.a.orders` came from cluster a to b and from there on here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

STATE_TOPIC: Final = "barnabas-mirror-state"
"""Progress, routes and producers of the mirrors that write into a cluster; compacted, in that cluster."""
OFFSETS_TOPIC: Final = "barnabas-mirror-offsets"
"""Which offsets of the sources became which at the target, as time goes on."""

_INTERNAL: Final = re.compile(r"__.*|barnabas-mirror-(state|offsets)|mm2-.*\.internal|.*\.checkpoints\.internal")


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to the machinery of a cluster or of a mirror, Kafka's own included."""
    return _INTERNAL.fullmatch(topic) is not None


def target_name(topic: str, alias: str, *, naming: str, separator: str) -> str:
    """What a topic of the cluster `alias` is called at the target."""
    return topic if naming == "same" else f"{alias}{separator}{topic}"


def has_been_at(topic: str, alias: str, separator: str) -> bool:
    """Whether the aliases in front of a topic's name say that it came from, or through, the cluster `alias`."""
    return alias in topic.split(separator)[:-1]


def wanted_topics(
    found: Iterable[str], *, topics: Sequence[str], pattern: str | None, exclude: str | None
) -> tuple[list[str], list[str]]:
    """Of the topics that a cluster has those that are mirrored, sorted, and those of `topics` that it lacks."""
    names = set(found)
    if pattern is not None:
        wanted = {name for name in names if re.fullmatch(pattern, name) and not is_internal(name)}
    else:
        wanted = set(topics)
    if exclude is not None:
        wanted = {name for name in wanted if not re.fullmatch(exclude, name)}
    return sorted(wanted & names), sorted(wanted - names)
