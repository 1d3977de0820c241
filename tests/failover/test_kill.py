"""`kill -9` of a broker under load: nothing acknowledged is lost, nothing is there twice, recovery says what it did.

The load is an idempotent producer on a topic that flushes when it likes and on one with flush.messages=1 on a disk that
syncs slowly, whose records so stand in the log when their answer does not leave any more: the producer sends them
again, and the broker must know them. Before each kill the process is stopped where it is, which it cannot notice, and
is killed only when the client has a request without an answer.
"""

import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.failover.conftest import MakeBroker
from tests.support.broker_process import BrokerProcess
from tests.support.faulty_broker import ENTRY
from tests.support.faulty_disk import FSYNC, Fault, FaultControl
from tests.support.load_client import LoadClient, read_everything
from tests.support.load_history import LoadHistory
from tests.support.topics import create_topic, wait_for_leaders

KILLS = 4
SOAK_KILLS_A_MINUTE = 12
RECOVERED = re.compile(
    r"(?P<topic>\S+)-(?P<partition>\d+): recovered: scanned (?P<segments>\d+) segments, (?P<batches>\d+) batches, "
    r"(?P<bytes>\d+) bytes from offset (?P<start>\d+) on; cut (?P<cut>.*); ends at offset (?P<end>\d+)"
)


@dataclass(slots=True)
class Recovery:
    """What the log line of one partition says."""

    scanned_bytes: int
    batches: int
    cut: str
    end: int


def recoveries(output: str) -> dict[TopicPartition, Recovery]:
    return {
        TopicPartition(found["topic"], int(found["partition"])): Recovery(
            int(found["bytes"]), int(found["batches"]), found["cut"], int(found["end"])
        )
        for found in RECOVERED.finditer(output)
    }


def active_segment(broker: BrokerProcess, partition: TopicPartition) -> Path:
    return max((broker.log_directory / f"{partition.topic}-{partition.partition}").glob("*.log"))


def kill_with_a_request_in_flight(broker: BrokerProcess, load: LoadClient) -> None:
    stopped = time.monotonic()
    broker.send_signal(signal.SIGSTOP)
    assert load.wait_for_request_in_flight(stopped) > 0
    broker.kill()
    load.wait_until_cut_off(time.monotonic())


def leave_a_torn_batch(broker: BrokerProcess, partition: TopicPartition, random: Random) -> int:
    """What a write that a crash cut short looks like: the beginning of a batch that is good at that place."""
    segment = active_segment(broker, partition)
    data = segment.read_bytes()
    torn = data[: random.randrange(1, int.from_bytes(data[8:12]) + 12)]
    with segment.open("ab") as file:
        file.write(torn)
    return len(torn)


@pytest.mark.soak
@pytest.mark.processes
def test_what_was_acknowledged_outlives_kills(
    make_broker: MakeBroker, tmp_path: Path, seed: int, soak_minutes: float
) -> None:
    random = Random(seed)
    faults = FaultControl(tmp_path / "faults")
    faults.set(Fault(FSYNC, "/strict-", delay_ms=20))
    broker = make_broker(
        {"log.segment.bytes": str(1024 * 1024), "log.flush.offset.checkpoint.interval.ms": "500"},
        entry=ENTRY,
        environment=faults.environment,
    )
    broker.start()
    partitions = [
        *create_topic(broker.bootstrap, "relaxed", partitions=2),
        *create_topic(broker.bootstrap, "strict", partitions=2, settings={"flush.messages": "1"}),
    ]
    kills = max(KILLS, int(SOAK_KILLS_A_MINUTE * soak_minutes))
    history = LoadHistory()
    written_and_not_acknowledged = 0
    with LoadClient(broker.bootstrap, partitions, history) as load:
        for kill in range(kills):
            load.wait_for_acknowledgements(random.randrange(200, 2000))
            kill_with_a_request_in_flight(broker, load)
            ends = {partition: history.acknowledged_end(partition) for partition in partitions}
            torn_in = random.choice(partitions) if kill % 2 else None
            torn_bytes = leave_a_torn_batch(broker, torn_in, random) if torn_in else 0
            broker.start()
            found = recoveries(broker.output_of_this_life)
            assert set(found) == set(partitions)
            for partition, recovery in found.items():
                assert recovery.end >= ends[partition], f"{partition}: recovery lost what was acknowledged"
                if partition == torn_in:
                    assert recovery.cut.startswith(f"{torn_bytes} bytes of {active_segment(broker, partition)}")
                else:
                    assert recovery.cut == "nothing"
                written_and_not_acknowledged += recovery.end - ends[partition]
    assert broker.stop() == 0
    broker.start()
    wait_for_leaders(broker.bootstrap, partitions)
    assert history.given_up == []
    assert history.anomalies(read_everything(broker.bootstrap, partitions)) == []
    assert history.acknowledged_count == history.sent_count
    assert written_and_not_acknowledged > 0, "no kill came between a write and its answer"
    print(f"{kills} kills, {history.sent_count} records, {written_and_not_acknowledged} written and not acknowledged")
