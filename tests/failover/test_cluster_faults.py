"""Faults of a cluster under load: three brokers, three ZooKeepers, four kinds of clients, one fault after the other.

All tests of this file share one world, which is played in order; the last ones judge what it leaves. An ordinary run
plays a few faults; a soak plays the whole catalogue, in an order that the run's seed draws, for as long as it lasts.
Where namespaces are forbidden the world is on loopback, and who needs to be cut off or a disk of its own is skipped.
"""

import os
import random
from collections.abc import Iterator

import pytest

from tests.conftest import SEED
from tests.failover import stage
from tests.failover.load.clients import Kind
from tests.failover.world import catalogue
from tests.failover.world.broker_node import SESSION_TIMEOUT_MS
from tests.failover.world.drill import ISR_SECONDS
from tests.failover.world.remote import RemoteWorld
from tests.failover.world.verdict import Verdict
from tests.failover.world.world import WorldPlan
from tests.support import soak

pytestmark = [pytest.mark.soak, pytest.mark.processes, pytest.mark.timeout(600)]

SHORT = (
    "kill-leader",
    "terminate-controller",
    "pause-leader",
    "isolate-leader",
    "isolate-follower-from-zookeeper",
    "leader-hears-no-broker",
    "expire-controller",
    "kill-zookeeper-leader",
    "kill-all",
    "fill-disk-of-follower",
    "cut-power-of-leader",
)
SECONDS_A_FAULT = 15
SHARE_OF_A_SOAK = 0.6
# Of three clients together on a machine that is busy with them; what is claimed, of one, is in `make claims`.
RESUMES_WITHIN_MS = {"kill": 2 * SESSION_TIMEOUT_MS, "terminate": 3000}


def sequence() -> list[str]:
    """What is played, in order."""
    count = int(soak.minutes() * 60 * SHARE_OF_A_SOAK / SECONDS_A_FAULT)
    if count == 0:
        return list(SHORT)
    drawn = random.Random(int(os.environ[SEED]))
    # Without a flush of each record nothing is promised when all lose their power at once; test_power_cut has that.
    names = [name for name in catalogue.FAULTS if stage.why_not(name) is None and name != "cut-power-of-all"]
    played: list[str] = []
    while len(played) < max(count, len(SHORT)):
        played += drawn.sample(names, len(names))
    return played[: max(count, len(SHORT))]


@pytest.fixture(scope="module")
def java_class_path(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    return stage.java_load(tmp_path_factory.mktemp("java-load"))[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, java_class_path: str | None) -> Iterator[RemoteWorld]:
    plan = WorldPlan(
        tmp_path_factory.mktemp("world"),
        isolated=stage.is_isolated(),
        disk=stage.disk(),
        disk_bytes=1 << 30,
    )
    loads = stage.loads(java=java_class_path is not None)
    with RemoteWorld(plan, loads, java_class_path=java_class_path, reads_along=True) as made:
        yield made


@pytest.fixture(scope="module")
def verdict(world: RemoteWorld, java_class_path: str | None) -> Verdict:
    """What is left after all the faults, read by every kind of client."""
    readers = [Kind.CONFLUENT_READER, Kind.AIOKAFKA_READER, Kind.BARNABAS_READER]
    return world.finish([*readers, Kind.JAVA_READER] if java_class_path else readers)


@pytest.mark.parametrize(
    ("number", "name"), [pytest.param(number, name, id=f"{number}-{name}") for number, name in enumerate(sequence())]
)
def test_a_fault_acts_and_heals_and_writes_go_on(world: RemoteWorld, number: int, name: str) -> None:
    if reason := stage.why_not(name):
        pytest.skip(reason)
    outcome = world.play(name)
    print(outcome)
    assert outcome.acknowledged > 0
    assert outcome.isr_seconds < ISR_SECONDS
    bound_ms = RESUMES_WITHIN_MS.get(name.split("-")[0])
    if bound_ms is not None and name != "kill-all" and outcome.partitions:
        assert outcome.pending > 0, "no acknowledgement was pending"
        assert outcome.resumed_ms is not None
        assert outcome.silent_ms is not None
        assert max(outcome.resumed_ms, outcome.silent_ms) < bound_ms


def test_nothing_is_lost_changed_doubled_or_out_of_order(verdict: Verdict) -> None:
    print(verdict)
    assert verdict.findings == []
    assert verdict.acknowledged > 0
    assert verdict.read >= verdict.acknowledged


def test_no_client_gave_a_record_up(verdict: Verdict) -> None:
    assert verdict.given_up_for == {}
    assert verdict.given_up == 0
    assert verdict.sent == verdict.acknowledged


def test_the_java_client_took_part(java_class_path: str | None, verdict: Verdict) -> None:
    if java_class_path is None:
        pytest.skip("no Java compiler, or no jars of the Java client, to be had here")
    written = {name: count for name, count in verdict.acknowledged_by.items() if f"-{Kind.JAVA}-" in name}
    read = {name: count for name, count in verdict.read_by.items() if f"-{Kind.JAVA_READER}-" in name}
    assert sum(written.values()) > 0, verdict.acknowledged_by
    assert sum(read.values()) >= verdict.acknowledged, verdict.read_by


def test_our_own_client_took_part(verdict: Verdict) -> None:
    (written,) = (count for name, count in verdict.acknowledged_by.items() if "-barnabas-producer-" in name)
    read = {name: count for name, count in verdict.read_by.items() if name.startswith("barnabas-producer-barnabas-")}
    assert written > 0
    assert sorted(read) == ["barnabas-producer-barnabas-reader-0", "barnabas-producer-barnabas-reader-1"]
    assert read["barnabas-producer-barnabas-reader-1"] > written / 2, "it did not read along with the load"
    assert read["barnabas-producer-barnabas-reader-0"] >= written
