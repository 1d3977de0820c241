"""Each rename, truncate, sync and write of what a log directory does, cut before and after it."""

import pytest

from tests.support.crash_points import changes_of, play, points_of
from tests.unit.storage.crash_scenarios import SCENARIOS
from tests.unit.storage.log_scenario import LogScenario
from tests.unit.storage.logs import NOW


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_every_state_that_a_crash_leaves_recovers(scenario: type[LogScenario]):
    changes = await changes_of(scenario(), lambda: NOW)
    assert changes
    for point in points_of(changes):
        await play(scenario(), point, now_ms=lambda: NOW)
