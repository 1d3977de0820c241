"""What the tests of a cluster's faults need from the machine: namespaces, disks, the Java client."""

import functools
from pathlib import Path

from tests.failover.load.clients import Kind
from tests.failover.world import isolation
from tests.failover.world.catalogue import FAULTS
from tests.failover.world.drill import LoadPlan
from tests.support.java import compile_java
from tests.support.kafka_jars import CLIENT_JARS, JarsNotAvailable, class_path

JAVA_SOURCE = Path(__file__).parent / "load" / "FailoverLoad.java"


def is_isolated() -> bool:
    """Whether worlds get networks of their own here; without, they are on loopback and nothing is cut off."""
    return isolation.why_no_network() is None or isolation.why_no_disks() is None


def disk() -> str:
    """The best disk that brokers can have here: an ext4 of their own, a tmpfs, or the machine's."""
    if isolation.why_no_disks() is None:
        return "ext4"
    return "memory" if is_isolated() else "plain"


def why_not(name: str) -> str | None:
    """Why this machine cannot play the fault, or None."""
    fault = FAULTS[name]()
    if fault.needs_network and not is_isolated():
        return isolation.why_no_network()
    if fault.needs_disk and disk() not in fault.needs_disk:
        return isolation.why_no_disks()
    return None


@functools.cache
def java_load(output: Path) -> tuple[str | None, str]:
    """The class path on which the Java load client runs; without one, why."""
    try:
        return compile_java(JAVA_SOURCE, jars=class_path(CLIENT_JARS), output=output), ""
    except JarsNotAvailable as error:
        return None, str(error)


def loads(*, java: bool) -> list[LoadPlan]:
    """All clients at once, each on a topic of its own."""
    made = [
        LoadPlan(Kind.CONFLUENT, 3000),
        LoadPlan(Kind.AIOKAFKA, 300, partitions=3, most_open=2000),
        LoadPlan(Kind.BARNABAS, 500, partitions=3),
    ]
    return [*made, LoadPlan(Kind.JAVA, 500, partitions=3, topic="java-producer")] if java else made
