"""The power of brokers goes under load: what their disks had not synced is gone, what was acknowledged is not.

Each broker's log directory is an ext4 of its own on a loop device, whose power is cut by an ioctl and which is mounted
again. The claims (`python -m tests.failover.claims power power-all`) are the same with more cuts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.failover import stage
from tests.failover.load.clients import Kind
from tests.failover.world import isolation
from tests.failover.world.drill import LoadPlan, Outcome
from tests.failover.world.remote import RemoteWorld
from tests.failover.world.verdict import Verdict
from tests.failover.world.world import WorldPlan

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

SECONDS_A_CUT = 15
SHARE_OF_A_SOAK = 0.1


def play(
    directory: Path, names: Sequence[str], *, rate: int, settings: Mapping[str, str] | None = None
) -> tuple[list[Outcome], Verdict]:
    """Play the faults in a world with disks of its own. Skips where there can be none."""
    if reason := isolation.why_no_disks():
        pytest.skip(reason)
    plan = WorldPlan(directory, isolated=True, disk="ext4", disk_bytes=2 << 30, settings=settings or {})
    count = max(len(names), int(stage.soak_minutes() * 60 * SHARE_OF_A_SOAK / SECONDS_A_CUT))
    with RemoteWorld(plan, [LoadPlan(Kind.CONFLUENT, rate)], reads_along=True) as world:
        outcomes = [world.play(names[number % len(names)]) for number in range(count)]
        verdict = world.finish([Kind.CONFLUENT_READER])
    print(*outcomes, verdict, sep="\n")
    return outcomes, verdict


def test_what_was_acknowledged_outlives_the_power_of_one_broker_and_a_slow_disk(tmp_path: Path) -> None:
    outcomes, verdict = play(tmp_path, ["cut-power-of-leader", "slow-disk-of-leader", "cut-power-of-leader"], rate=3000)
    assert verdict.findings == []
    assert verdict.sent == verdict.acknowledged
    assert all(outcome.pending for outcome in outcomes if outcome.partitions)


def test_what_was_acknowledged_outlives_the_power_of_all_brokers_when_every_record_is_flushed(tmp_path: Path) -> None:
    settings = {"log.flush.interval.messages": "1"}
    outcomes, verdict = play(tmp_path, ["cut-power-of-all"], rate=1500, settings=settings)
    assert verdict.findings == []
    assert verdict.sent == verdict.acknowledged
    assert all(outcome.pending for outcome in outcomes)
