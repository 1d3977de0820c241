"""Judges the history files of a drill, and compares the replicas that it left."""

import gc
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome
from barnabas.simulation.history_check import check
from tests.failover.load.history_file import read_history

_SHOWN = 20
# What a broker says when its disk fills up or loses its power, and ends rightly.
_DISK_IS_GONE = "the last log directory failed"


@dataclass(slots=True)
class Verdict:
    """What the files say, records of all clients and of each. `findings` are empty when all is well.

    `given_up_for` counts by client and error what producers gave up or were refused.
    """

    sent: int = 0
    acknowledged: int = 0
    read: int = 0
    given_up: int = 0
    given_up_for: dict[str, int] = field(default_factory=dict)
    rate: int = 0
    acknowledged_by: dict[str, int] = field(default_factory=dict)
    read_by: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


def judge(paths: Sequence[Path], partitions: Sequence[TopicPartition]) -> Verdict:
    """The verdict on these files. Every one of these partitions must have been written and read to its end."""
    # Millions of small objects that all stay: looking for garbage among them takes longer than all the rest.
    gc.disable()
    try:
        return _judge(paths, partitions)
    finally:
        gc.enable()


def _judge(paths: Sequence[Path], partitions: Sequence[TopicPartition]) -> Verdict:
    history, complaints = read_history(paths)
    verdict = Verdict(findings=[*complaints, *_unread(history, partitions)])
    acknowledged, read, given_up = Counter[str](), Counter[str](), Counter[str]()
    for produces in history.produces.values():
        verdict.sent += len(produces)
        acknowledged.update(one.client for one in produces if one.outcome is Outcome.OK)
        given_up.update(f"{one.client}: {one.error}" for one in produces if one.error)
    for polls in history.polls.values():
        for poll in polls:
            read[poll.client] += len(poll.records)
    verdict.acknowledged, verdict.acknowledged_by = acknowledged.total(), dict(acknowledged)
    verdict.given_up_for = dict(given_up)
    verdict.read, verdict.read_by = read.total(), dict(read)
    verdict.findings += [str(anomaly) for anomaly in check(history)][:_SHOWN]
    return verdict


def _unread(history: History, partitions: Sequence[TopicPartition]) -> list[str]:
    """A partition that nobody wrote, or that nobody read to the end, proves nothing."""
    found = []
    for where in partitions:
        if not any(one.outcome is Outcome.OK for one in history.produces.get(where, ())):
            found.append(f"{where}: nothing was acknowledged")
        if not any(poll.final and poll.records for poll in history.polls.get(where, ())):
            found.append(f"{where}: nothing was read at the end")
    return found


def compare_replicas(logs: Mapping[int, Mapping[int, bytes]], *, replicas: int) -> list[str]:
    """Where the replicas of a partition differ. `logs`: broker -> partition -> what its segments hold."""
    by_partition: dict[int, list[tuple[int, bytes]]] = {}
    for broker_id, partitions in logs.items():
        for partition, data in partitions.items():
            by_partition.setdefault(partition, []).append((broker_id, data))
    found = []
    for partition, copies in sorted(by_partition.items()):
        if len(copies) != replicas:
            found.append(f"partition {partition}: {len(copies)} replicas, not {replicas}")
        for (one, first), (other, second) in pairwise(copies):
            if first != second:
                same = _common_length(first, second)
                found.append(
                    f"partition {partition}: brokers {one} and {other} have {len(first)} and {len(second)} bytes, "
                    f"the same up to {same}"
                )
    return found


def _common_length(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def damage(output: str) -> list[str]:
    """What a broker wrote into its log that no fault explains: failed assertions and endings of its own."""
    said = re.findall(r"^.*(?:AssertionError|ending the process).*$", output, re.MULTILINE)
    return [line for line in said if _DISK_IS_GONE not in line][:_SHOWN]
