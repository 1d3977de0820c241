"""A file system that is full takes the log directory on it offline, and what was acknowledged is on it.

The broker runs in a mount namespace of its own, where one of its two log directories is a tmpfs of 2 MB.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.failover.conftest import MakeBroker
from tests.support.api_client import ApiConnection, batch_of
from tests.support.load_client import read_everything
from tests.support.load_history import LoadHistory
from tests.support.topics import create_topic, wait_for_leaders

SIZE_BYTES = 2 * 1024 * 1024
VALUE_BYTES = 60_000


def on_a_tmpfs(directory: Path) -> list[str]:
    """The command in front of another that gives it a small tmpfs there. Skips where that is forbidden."""
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={SIZE_BYTES} none "$0" && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace to be had: {tried.stderr.strip()}")
    return command


@pytest.mark.processes
def test_a_full_disk_takes_its_directory_offline_and_nothing_else(make_broker: MakeBroker, tmp_path: Path) -> None:
    small, roomy = tmp_path / "small", tmp_path / "roomy"
    broker = make_broker(
        {"log.dirs": f"{small},{roomy}", "log.index.size.max.bytes": "4096"}, wrapper=on_a_tmpfs(small)
    )
    broker.start()
    seen_small = Path(f"/proc/{broker.pid}/root{small}")
    partitions = create_topic(broker.bootstrap, "t", partitions=2)
    (filling,) = (partition for partition in partitions if (seen_small / f"t-{partition.partition}").exists())
    (other,) = (partition for partition in partitions if partition != filling)
    history = LoadHistory()
    with ApiConnection(broker.host, broker.port) as client:
        assert fill(client, filling, history) == ErrorCode.KAFKA_STORAGE_ERROR
        assert free_bytes(seen_small) < VALUE_BYTES, "the disk was full"
        assert fill(client, filling, history) == ErrorCode.KAFKA_STORAGE_ERROR
        assert send_one(client, other, history) == ErrorCode.NONE
    assert "No space left on device" in broker.wait_for(f"{small}: the log directory is offline for good")
    assert broker.exit_status is None
    rescued = tmp_path / "rescued"
    shutil.copytree(seen_small, rescued)
    assert broker.stop() == 0

    again = make_broker({"log.dirs": f"{rescued},{roomy}"})
    again.start()
    wait_for_leaders(again.bootstrap, partitions)
    assert "bytes of" in again.wait_for(f"{filling.topic}-{filling.partition}: recovered: ")
    assert history.anomalies(read_everything(again.bootstrap, partitions)) == []


def free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def fill(client: ApiConnection, partition: TopicPartition, history: LoadHistory) -> int:
    """Send until something is refused; the error."""
    for _ in range(2 * SIZE_BYTES // VALUE_BYTES):
        error = send_one(client, partition, history)
        if error != ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def send_one(client: ApiConnection, partition: TopicPartition, history: LoadHistory) -> int:
    sent = history.send(partition, "p", size_bytes=VALUE_BYTES, idempotent=False)
    client.send_produce(partition, batch_of([sent.value]))
    answer = client.receive_produced()
    if answer.error_code == ErrorCode.NONE:
        history.acknowledge(sent, answer.base_offset)
    return answer.error_code
