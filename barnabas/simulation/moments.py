"""When what happens: moments of faults and errands, drawn before a world begins."""

import random
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_LONG_GAP_S: Final = 15.0


class Moment(NamedTuple):
    """Something of a kind, so long after the load began; all that it draws comes from `chance` as a seed."""

    at_s: float
    kind: str
    chance: int


def draw_moments(
    chance: random.Random, weights: Mapping[str, float], *, mean_gap_s: float, until_s: float, long_gaps: float = 0.0
) -> list[Moment]:
    """Kinds by their weights, at random moments before `until_s`; a part of the gaps, `long_gaps`, is much longer."""
    kinds, shares = list(weights), list(weights.values())
    return [
        Moment(round(at_s, 3), chance.choices(kinds, shares)[0], chance.getrandbits(32))
        for at_s in _starts(chance, mean_gap_s=mean_gap_s, until_s=until_s, long_gaps=long_gaps)
        if kinds
    ]


def _starts(chance: random.Random, *, mean_gap_s: float, until_s: float, long_gaps: float) -> Iterable[float]:
    at_s = 0.0
    while True:
        at_s += chance.expovariate(1 / mean_gap_s) + (_LONG_GAP_S if chance.random() < long_gaps else 0.0)
        if at_s >= until_s:
            return
        yield at_s
