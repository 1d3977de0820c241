"""The power of all brokers goes at once: with every record flushed, what was acknowledged is there afterwards.

Each broker's log directory is an ext4 of its own on a loop device, whose power is cut by an ioctl and which is mounted
again. Cuts of one broker are among the faults of `test_cluster_faults`, and more of both in `make claims`.
"""

from pathlib import Path

import pytest

from tests.failover.load.clients import Kind
from tests.failover.world import isolation
from tests.failover.world.drill import LoadPlan
from tests.failover.world.remote import RemoteWorld
from tests.failover.world.world import WorldPlan
from tests.support import soak

pytestmark = [pytest.mark.soak, pytest.mark.processes, pytest.mark.timeout(900)]

SECONDS_A_CUT = 15
SHARE_OF_A_SOAK = 0.1


def test_what_was_acknowledged_outlives_the_power_of_all_brokers_when_every_record_is_flushed(tmp_path: Path) -> None:
    if reason := isolation.why_no_disks():
        pytest.skip(reason)
    settings = {"log.flush.interval.messages": "1"}
    plan = WorldPlan(tmp_path, isolated=True, disk="ext4", disk_bytes=2 << 30, settings=settings)
    cuts = max(1, int(soak.minutes() * 60 * SHARE_OF_A_SOAK / SECONDS_A_CUT))
    with RemoteWorld(plan, [LoadPlan(Kind.CONFLUENT, 1500)], reads_along=True) as world:
        outcomes = [world.play("cut-power-of-all") for _ in range(cuts)]
        verdict = world.finish([Kind.CONFLUENT_READER])
    print(*outcomes, verdict, sep="\n")
    assert verdict.findings == []
    assert verdict.sent == verdict.acknowledged
    assert all(outcome.pending for outcome in outcomes)
