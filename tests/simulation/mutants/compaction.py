"""What takes the place of rules of compaction. Each function gets the original."""

from dataclasses import replace
from typing import Any

from tests.simulation.mutants.mutant import Rule


def clean_what_is_not_committed(original: Rule) -> Rule:
    """The undecided end of a log is cleaned too: committed values give way to ones that are cut later."""

    def decide_range(facts: Any, *, now_ms: int) -> Any:
        return original(replace(facts, first_unstable_offset=None), now_ms=now_ms)

    return decide_range


def keep_one_too_few(original: Rule) -> Rule:
    """Some records go though no later one has their key."""

    def keep(self: Any, columns: Any, *, keeps_deletes: bool) -> Any:
        return original(self, columns, keeps_deletes=keeps_deletes) & (columns.offset % 23 != 7)

    return keep
