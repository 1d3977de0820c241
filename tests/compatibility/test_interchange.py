"""Data directories with all that a log can hold go from Kafka 2.7.2 to Barnabas and back, and lose nothing on the way.

Kafka writes for two lives; its directory is copied as a kill leaves it and as a clean stop does. Barnabas opens each of
these, shows the same, writes on in topics of its own too, and ends in the same manner; then Kafka opens what it left.
"""

import asyncio
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.launcher.zookeeper import LocalZooKeeper
from barnabas.protocol.ids import TopicPartition
from barnabas.storage.producer_snapshot import decode_snapshot
from barnabas.storage.producer_state import ProducerEntry
from barnabas.storage.txn_index import AbortedTxn, decode_aborted
from tests.compatibility.disk_life import CLEANED, CODED, KEPT, MAGIC_1, MIXED, UNDECIDED, Life, wait_until
from tests.compatibility.disk_view import View, differences, read_records, view
from tests.compatibility.stored_transactions import ABORTS, COMMITS, Written, write_transactions
from tests.compatibility.stored_transactions import UNDECIDED as OPEN
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS, Kafka
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path, java_command
from tests.support.topics import create_topic
from tests.support.zookeeper import new_zookeeper

pytestmark = [pytest.mark.java, pytest.mark.processes, pytest.mark.timeout(600)]

# Of a Barnabas that is killed, whose znode must go before the next may come; Kafka always stops, and keeps its default.
SESSION = {"zookeeper.session.timeout.ms": "4000", "zookeeper.connection.timeout.ms": "20000"}
WRITES = {
    **ONE_BROKER_SETTINGS,
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2000000",
}
RESTS = {
    **ONE_BROKER_SETTINGS,
    "log.cleaner.enable": "false",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
EPOCHS = 6
KAFKAS_SECOND_EPOCH = 3
KAFKAS_TOOL = "kafka.tools.DumpLogSegments"
ENDS = ("killed", "stopped")
BY_HAND = "by-hand"
WHERE_BY_HAND = TopicPartition(BY_HAND, 0)


@dataclass(slots=True)
class Left:
    """What a broker left: its directory, and what it showed before."""

    directory: Path
    shown: View
    zookeeper: str


def copy(source: Path, target: Path) -> Path:
    # The lock and the marker of a clean stop come along.
    return Path(shutil.copytree(source, target))


def await_cleaned(directory: Path, topics: Sequence[str]) -> None:
    """Return when the cleaner has come up to the active segment of each of these."""

    def is_done() -> bool:
        path = directory / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        cleaned = {line.split()[0]: int(line.split()[2]) for line in lines}
        return all(
            cleaned.get(topic) == max(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))
            for topic in topics
        )

    wait_until(is_done, f"not cleaned: {topics}")


def raise_leader_epochs(zookeeper: str, epoch: int) -> None:
    """Let the next leaders begin a later epoch, as after changes of leaders."""
    client = KazooClient(zookeeper)
    client.start()
    try:
        for topic in client.get_children("/brokers/topics"):
            for partition in client.get_children(f"/brokers/topics/{topic}/partitions"):
                path = f"/brokers/topics/{topic}/partitions/{partition}/state"
                state = json.loads(client.get(path)[0])
                client.set(path, json.dumps({**state, "leader_epoch": epoch}).encode())
    finally:
        client.stop()
        client.close()


def await_unregistered(zookeeper: str) -> None:
    client = KazooClient(zookeeper)
    client.start()
    try:
        wait_until(lambda: not client.exists("/brokers/ids/1"), "the broker is still registered")
    finally:
        client.stop()
        client.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    try:
        class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    with new_zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(scope="module")
def of_kafka(zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """What Kafka left, by how it ended."""
    base, address = tmp_path_factory.mktemp("kafka"), zookeeper.connect_string
    with Kafka(base / "first", WRITES, zookeeper=address) as first:
        life = Life(first.bootstrap)
        cleaned = [topic for topic in life.settings() if topic.startswith(CLEANED)]
        life.write_first()
        await_cleaned(first.log_directory, cleaned)
    raise_leader_epochs(address, KAFKAS_SECOND_EPOCH)
    with Kafka(base / "second", WRITES, zookeeper=address, log_directory=first.log_directory) as second:
        life = Life(second.bootstrap)
        life.write_second()
        await_cleaned(second.log_directory, cleaned)
        shown = view(second.bootstrap, life.partitions(), epochs=KAFKAS_SECOND_EPOCH + 1)
        second.pause()
        killed = copy(second.log_directory, base / "killed")
        second.resume()
    await_unregistered(address)
    return {
        "killed": Left(killed, shown, address),
        "stopped": Left(copy(second.log_directory, base / "stopped"), shown, address),
    }


@dataclass(slots=True)
class OfBarnabas(Left):
    """`opened` is what it showed when it had opened Kafka's directory, `directory` what it left at last."""

    opened: View
    kafka: Left
    of_kafka_when_stopped: Path
    was_killed: bool
    by_hand: Written | None


@pytest.fixture(scope="module", params=ENDS)
def of_barnabas(
    request: pytest.FixtureRequest, of_kafka: dict[str, Left], tmp_path_factory: pytest.TempPathFactory
) -> OfBarnabas:
    """What Barnabas showed of such a directory, and left."""
    end: str = request.param
    left = of_kafka[end]
    base = tmp_path_factory.mktemp(f"barnabas-{end}")
    data = copy(left.directory, base / "data")
    partitions = list(left.shown)
    with BrokerProcess(base / "broker", left.zookeeper, {**RESTS, **SESSION}, log_directory=data) as barnabas:
        opened = view(barnabas.bootstrap, partitions, epochs=KAFKAS_SECOND_EPOCH + 1)
        Life(barnabas.bootstrap, transactions=False).write(start=300)
        own = Life(barnabas.bootstrap, prefix=f"{end}-", transactions=False)
        own.write_first()
        own.write_second()
        shown = view(barnabas.bootstrap, [*partitions, *own.partitions()], epochs=EPOCHS)
        (by_hand,) = create_topic(barnabas.bootstrap, BY_HAND, settings=KEPT) if end == "stopped" else (None,)
        starts = data / "log-start-offset-checkpoint"
        wait_until(lambda: f"{end}-deleted 0 45" in starts.read_text(), "the start is not in the checkpoint")
        if end == "killed":
            barnabas.kill()
    await_unregistered(left.zookeeper)
    written = asyncio.run(write_transactions(data, by_hand)) if by_hand else None
    return OfBarnabas(
        data, shown, left.zookeeper, opened, left, of_kafka["stopped"].directory, end == "killed", written
    )


def alike(kafka: View, barnabas: View, *, rebuilt: bool) -> list[str]:
    """Where they differ, but for two things.

    A segment without a timestamp, of format 0 or emptied by the cleaner, has that of its file to Kafka, which finds
    nothing in it then and does not look behind it; we do. And who builds the index of aborted transactions of a
    compacted log again (`rebuilt`) no more finds where these began.
    """
    compared = {where: dataclasses.replace(one, times=dict(one.times)) for where, one in barnabas.items()}
    for where, one in kafka.items():
        if CLEANED in where.topic or MIXED in where.topic:
            compared[where].times |= {time: answer for time, answer in one.times.items() if answer == (-1, -1, -1)}
        if CLEANED in where.topic and rebuilt:
            assert len(compared[where].aborted) >= len(one.aborted)
            compared[where].aborted = one.aborted
    return differences(kafka, compared)


def test_barnabas_shows_what_kafka_showed(of_barnabas: OfBarnabas) -> None:
    assert alike(of_barnabas.kafka.shown, of_barnabas.opened, rebuilt=of_barnabas.was_killed) == []


def test_kafka_shows_what_barnabas_showed(of_barnabas: OfBarnabas, tmp_path: Path) -> None:
    directory = copy(of_barnabas.directory, tmp_path / "data")
    with Kafka(tmp_path / "kafka", RESTS, zookeeper=of_barnabas.zookeeper, log_directory=directory) as kafka:
        shown = view(kafka.bootstrap, list(of_barnabas.shown), epochs=EPOCHS)
        transactions = view(kafka.bootstrap, [WHERE_BY_HAND], epochs=0) if of_barnabas.by_hand else {}
        goes_on = Life(kafka.bootstrap, transactions=False)
        goes_on.write([CODED, MAGIC_1], start=400)
        coded = [where for where in goes_on.partitions() if where.topic == CODED]
        after = read_records(kafka.bootstrap, coded, isolation="committed")
        complaints = [line for line in kafka.output.splitlines() if "ERROR" in line or "Found invalid" in line]
    await_unregistered(of_barnabas.zookeeper)
    assert complaints == []
    # What Barnabas has built again of a killed directory; Kafka begins at the last segment, and believes its snapshot.
    assert alike(shown, of_barnabas.shown, rebuilt=of_barnabas.was_killed) == []
    for where in coded:
        before = of_barnabas.shown[where].committed
        assert after[where][: len(before)] == before
        assert [record[0] for record in after[where][len(before) :]] == list(range(len(before), len(before) + 100))

    for where, one in transactions.items():
        written = of_barnabas.by_hand
        assert written is not None
        assert [record[0] for record in one.committed] == written.committed
        assert (one.aborted, one.stable_end_offset) == (written.aborted, written.stable_end_offset)
        assert one.end_offset == written.end_offset
        assert newest_producers(directory, where) == newest_producers(of_barnabas.directory, where)
        assert newest_producers(directory, where)[1].keys() == {COMMITS, ABORTS, OPEN}


def test_the_directory_holds_what_it_is_to_show(of_kafka: dict[str, Left]) -> None:
    """What the others compare must be there: formats, gaps of compaction, aborted and undecided transactions."""
    shown = of_kafka["killed"].shown
    by_topic = {topic: [one for where, one in shown.items() if where.topic == topic] for topic, _ in shown}
    assert [magics(one.stored) for one in by_topic["mixed"]] == [{0, 1, 2}] * 2
    assert {topic: {frozenset(magics(one.stored)) for one in by_topic[topic]} for topic in ("magic-0", "magic-1")} == {
        "magic-0": {frozenset({0})},
        "magic-1": {frozenset({1})},
    }
    for topic in ("cleaned", "cleaned-magic-1", "cleaned-transactions"):
        (one,) = by_topic[topic]
        assert one.end_offset - len(one.uncommitted) > 50, f"{topic} was not compacted"
    (transactions,) = by_topic["transactions"]
    assert transactions.aborted
    assert len(transactions.committed) == len(transactions.uncommitted) // 2
    assert all(one.stable_end_offset == 0 < one.end_offset for one in by_topic[UNDECIDED])
    assert by_topic["deleted"][0].start_offset == 45
    assert all(one.epochs[KAFKAS_SECOND_EPOCH] == (KAFKAS_SECOND_EPOCH, one.end_offset) for one in by_topic["coded"])


def magics(stored: bytes) -> set[int]:
    found, at = set(), 0
    while at < len(stored):
        found.add(stored[at + 16])
        at += 12 + int.from_bytes(stored[at + 8 : at + 12])
    return found


def newest_producers(directory: Path, where: TopicPartition) -> tuple[int, dict[int, ProducerEntry]]:
    """Offset and content of the newest snapshot."""
    path = max((directory / f"{where.topic}-{where.partition}").glob("*.snapshot"), default=None)
    if path is None:
        return -1, {}
    return int(path.stem), {entry.producer_id: entry for entry in decode_snapshot(path.read_bytes())}


def aborted_transactions(directory: Path, where: TopicPartition) -> list[AbortedTxn]:
    return [
        txn
        for path in sorted((directory / f"{where.topic}-{where.partition}").glob("*.txnindex"))
        for txn in decode_aborted(path.read_bytes(), base_offset=int(path.stem))
    ]


def offsets_of(path: Path) -> dict[str, int]:
    """A checkpoint's offsets by `topic-partition`."""
    return {"-".join(line.split()[:2]): int(line.split()[2]) for line in path.read_text().splitlines()[2:]}


def test_producers_and_aborted_transactions_are_the_same(of_barnabas: OfBarnabas) -> None:
    """Barnabas' own files, after Kafka's killed or stopped directory, against those of Kafka's clean stop."""
    for where, one in of_barnabas.kafka.shown.items():
        kept_offset, kept = newest_producers(of_barnabas.of_kafka_when_stopped, where)
        offset, found = newest_producers(of_barnabas.directory, where)
        assert kept_offset == one.end_offset, "Kafka's is at the end"
        assert offset >= kept_offset
        assert {number: found.get(number) for number in kept} == kept, where
        if not (of_barnabas.was_killed and where.topic.startswith(CLEANED)):
            assert aborted_transactions(of_barnabas.directory, where) == aborted_transactions(
                of_barnabas.of_kafka_when_stopped, where
            )


@pytest.mark.parametrize("of_barnabas", ["stopped"], indirect=True)
def test_checkpoints_after_a_clean_stop(of_barnabas: OfBarnabas) -> None:
    """Ends are high watermarks and recovery points; starts are said only where they lie within a segment."""
    directory = of_barnabas.directory
    assert (directory / ".kafka_cleanshutdown").exists()
    high_watermarks = offsets_of(directory / "replication-offset-checkpoint")
    recovery_points = offsets_of(directory / "recovery-point-offset-checkpoint")
    ends = {f"{where.topic}-{where.partition}": one.end_offset for where, one in of_barnabas.shown.items()}
    assert {name: high_watermarks[name] for name in ends} == ends
    # One below the end, unless a segment begins there: the reason is in `Log.recovery_point_to_keep`.
    assert all(recovery_points[name] in (end - 1, end) for name, end in ends.items())
    starts = offsets_of(directory / "log-start-offset-checkpoint")
    assert starts.keys() == {"deleted-0", "stopped-deleted-0"}
    assert (
        offsets_of(directory / "cleaner-offset-checkpoint").items()
        >= offsets_of(of_barnabas.of_kafka_when_stopped / "cleaner-offset-checkpoint").items()
    )


KINDS = ("log", "index", "timeindex", "snapshot", "txnindex")
DUMPS = {
    "everything": (KINDS, ["--print-data-log"]),
    "batches": (("log",), []),
    "indexes are sane": (("index",), ["--index-sanity-check"]),
    "indexes are held against their logs": (("index", "timeindex"), ["--verify-index-only"]),
    "committed offsets": (("log",), ["--offsets-decoder"]),
    "states of transactions": (("log",), ["--transaction-log-decoder"]),
}
INTERNAL = {"committed offsets": "__consumer_offsets-0", "states of transactions": "__transaction_state-0"}


@pytest.mark.parametrize("what", DUMPS)
@pytest.mark.parametrize("of_barnabas", ["killed"], indirect=True)
def test_dump_log_prints_what_kafkas_tool_prints(of_barnabas: OfBarnabas, what: str) -> None:
    """Of both directories at once: Java takes a second to start."""
    kinds, options = DUMPS[what]
    files: list[Path] = []
    for directory in (of_barnabas.kafka.directory, of_barnabas.directory):
        for kind in kinds:
            found = sorted(directory.glob(f"{INTERNAL.get(what, '[!_]*-*')}/*.{kind}"))
            assert found, f"no .{kind} in {directory}"
            files += found
    arguments = [*options, "--files", ",".join(map(str, files))]
    theirs = subprocess.run(
        [java_command(), "-XX:TieredStopAtLevel=1", "-cp", class_path(BROKER_JARS), KAFKAS_TOOL, *arguments],
        capture_output=True,
        check=True,
    )
    ours = subprocess.run(
        [sys.executable, "-m", "barnabas.admin.main", "dump-log", *arguments], capture_output=True, check=True
    )
    shown, expected = ours.stdout.splitlines(), theirs.stdout.splitlines()
    different = [pair for pair in zip(shown, expected, strict=False) if pair[0] != pair[1]]
    assert different[:3] == []
    assert len(shown) == len(expected)
    # What does not fit together comes by files, whose order is that of a hash table there.
    told = [line for line in theirs.stderr.splitlines() if b"log4j" not in line and b"SLF4J" not in line]
    assert sorted(ours.stderr.splitlines()) == sorted(told)
    # Of batches that Barnabas wrote alone it finds nothing wrong. (Of a set of old messages an index names the last.)
    named = [line for line in told if b" in :" in line or b"Non-consecutive" in line]
    assert [line for line in named if re.search(rb"/killed-(coded|deleted|append-time)", line)] == []
