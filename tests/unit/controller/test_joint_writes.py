"""Writes that go to ZooKeeper as one multi: how they are grouped, and what becomes of them when one is refused."""

from collections.abc import AsyncIterator
from math import ceil

import pytest

from controller import joint_writes
from controller.actions import Write
from controller.office import BATCH_PARTITIONS
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.core_rig import FENCE
from zk_schema import paths
from zk_schema.ops import Create, Created, Delete, Done, Op, Set, Stat, Written
from zk_schema.pipeline import GetData, Request
from zk_schema.pipeline import Write as WriteRequest

MOST_OPERATIONS = 125
SERVER_TAKES_BYTES = 1_000_000


def write(*operations: Op) -> Write:
    return Write((FENCE, *operations), "why")


def one(number: int, *, size: int = 100) -> Write:
    return write(Set(f"/{number}", bytes(size), number))


def test_no_writes_are_no_group() -> None:
    assert list(joint_writes.groups([])) == []


@pytest.mark.parametrize(("count", "size"), [(1, 0), (125, 0), (126, 100), (1_000, 100), (40, 20_000), (3, 500_000)])
def test_groups_hold_all_writes_in_their_order_and_what_a_server_takes(count: int, size: int) -> None:
    writes = [one(number, size=size) for number in range(count)]
    groups = list(joint_writes.groups(writes))
    assert [each for group in groups for each in group] == writes
    for group in groups:
        operations = joint_writes.joined(group)
        assert operations[0] == FENCE
        assert operations.count(FENCE) == 1
        assert len(operations) <= 1 + MOST_OPERATIONS
        assert len(group) == 1 or sum(len(each.operations[1].data) for each in group) < SERVER_TAKES_BYTES / 4
    if size <= 100:
        assert len(groups) == ceil(count / MOST_OPERATIONS)


def test_a_write_that_is_large_already_goes_alone() -> None:
    large = write(*(Delete(f"/t/{number}") for number in range(MOST_OPERATIONS)))
    assert list(joint_writes.groups([one(1), large, one(2)])) == [[one(1)], [large], [one(2)]]


def test_each_has_the_results_of_its_own_operations() -> None:
    group = [write(Create("/a"), Create("/a/b")), write(), write(Set("/c", b"", 4))]
    written = Written(Stat(0, 0, 0, 0, 5, 0, 0, 0))
    results = [Done(), Created("/a"), Created("/a/b"), written]
    assert joint_writes.joined(group) == (FENCE, Create("/a"), Create("/a/b"), Set("/c", b"", 4))
    assert joint_writes.parted(group, results) == [
        (Done(), Created("/a"), Created("/a/b")),
        (Done(),),
        (Done(), written),
    ]


PARTITIONS = 300


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Three brokers, the first is the controller; the third leads all of `t`."""
    cluster = Cluster()
    await cluster.open()
    await cluster.start_brokers(1, 2, 3)
    await cluster.create("t", {number: [3, 2] for number in range(PARTITIONS)})
    await cluster.until_led("t", PARTITIONS - 1, by=3)
    yield cluster
    await cluster.close()


def multis(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, states_read: list[str] | None = None) -> list[int]:
    """How many operations each further multi of the controller has; and which state znodes it reads."""
    counts: list[int] = []
    session = cluster.brokers[1].session
    perform = session._perform

    async def count(request: Request) -> object:
        if isinstance(request, WriteRequest):
            counts.append(len(request.operations))
        elif states_read is not None and isinstance(request, GetData) and request.path.endswith("/state"):
            states_read.append(request.path)
        return await perform(request)

    monkeypatch.setattr(session, "_perform", count)
    return counts


async def test_leaders_of_many_partitions_are_written_by_few_multis(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = multis(cluster, monkeypatch)
    cluster.kill(3)
    for number in range(PARTITIONS):
        await cluster.until_led("t", number, by=2)
    assert sum(counts) == PARTITIONS + len(counts), "each once, and a fence for each multi"
    assert len(counts) <= ceil(PARTITIONS / MOST_OPERATIONS) + ceil(PARTITIONS / BATCH_PARTITIONS)


@pytest.mark.parametrize(("moved", "most_multis"), [({7}, 10), ({0}, 10), ({124}, 10), ({7, 90}, MOST_OPERATIONS + 10)])
async def test_where_one_is_refused_the_others_are_written_all_the_same_and_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, moved: set[int], most_multis: int
) -> None:
    before = cluster.state("t", 0)
    assert before is not None
    for number in moved:
        await cluster.tool.write(Set(paths.partition_state("t", number), before.encode()))
    states_read: list[str] = []
    counts = multis(cluster, monkeypatch, states_read)
    cluster.kill(3)
    for number in range(PARTITIONS):
        await cluster.until_led("t", number, by=2)
    states = [cluster.state("t", number) for number in range(PARTITIONS)]
    assert {state.leader_epoch for state in states if state is not None} == {before.leader_epoch + 1}
    assert len(counts) <= most_multis
    assert sorted(states_read) == sorted(paths.partition_state("t", number) for number in moved), "no other was refused"


@pytest.mark.parametrize(
    ("refused", "parts"),
    [(1, [1, 2]), (2, [1, 2]), (3, [1, 1, 1]), (4, [2, 1])],
    ids=["first", "its last", "middle", "last"],
)
def test_a_refused_operation_sets_its_write_apart(refused: int, parts: list[int]) -> None:
    group = [write(Create("/a"), Create("/a/b")), write(Delete("/b")), write(Set("/c", b"", 4))]
    found = joint_writes.apart(group, refused)
    assert [len(part) for part in found] == parts
    assert [each for part in found for each in part] == group
    (alone,) = [part for part in found if joint_writes.joined(group)[refused] in part[0].operations]
    assert len(alone) == 1


async def test_where_a_later_controller_was_elected_nothing_is_written_nor_tried_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = multis(cluster, monkeypatch)
    await cluster.tool.write(Set(paths.CONTROLLER_EPOCH, b"7"))
    cluster.kill(3)
    for number in range(PARTITIONS):
        await cluster.until_led("t", number, by=2)
    states = [cluster.state("t", number) for number in range(PARTITIONS)]
    assert {state.controller_epoch for state in states if state is not None} == {8}
    assert len(counts) < PARTITIONS / 10


@pytest.mark.parametrize("is_done", [True, False])
async def test_what_a_lost_connection_leaves_unknown_is_read_and_written_once(
    cluster: Cluster, *, is_done: bool
) -> None:
    paths_of = {paths.partition_state("t", number) for number in range(PARTITIONS)}

    def is_of_many(request: WriteRequest) -> bool:
        return sum(operation.path in paths_of for operation in request.operations) > 1

    broken = cluster.zk.break_at_write(cluster.brokers[1].session, is_of_many, is_done=is_done)
    cluster.kill(3)
    for number in range(PARTITIONS):
        await cluster.until_led("t", number, by=2)
    assert broken.has_hit
    epochs = [state.leader_epoch for number in range(PARTITIONS) if (state := cluster.state("t", number))]
    assert epochs == [1] * PARTITIONS
