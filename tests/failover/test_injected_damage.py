"""Bits that flip, bytes that become zero and files that lose their end, on one replica of three: all is mended.

An ordinary run plays a few injections, a soak of ten minutes a thousand; what is held is in
`tests/simulation/damage_story.py`.
"""

import pytest

from tests.simulation.damage_story import KINDS, run
from tests.support import soak

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

FEW, EACH_MINUTE, IN_ONE_CLUSTER = 25, 100, 50


def test_whatever_is_damaged_on_one_replica_is_mended_and_never_served(seed: int) -> None:
    left, number = max(FEW, int(soak.minutes() * EACH_MINUTE)), 0
    acted: set[str] = set()
    while left > 0:
        tally, story = run(min(left, IN_ONE_CLUSTER), f"{seed}.{number}")
        assert tally.passed, f"seed {seed}.{number}: {tally.violations}"
        acted |= {kind for kind in KINDS for name in story.acted if name.startswith(kind)}
        left, number = left - IN_ONE_CLUSTER, number + 1
    assert acted == set(KINDS)
