"""Where brokers and clients are pinned, and what a broker's rate is held against."""

import os
from pathlib import Path

import pytest

from barnabas.runtime.page_cache import pages_in_memory, pages_of
from bench.side_by_side.__main__ import file_system
from bench.side_by_side.clients import Volume
from bench.side_by_side.contestants import SHIPPED
from bench.side_by_side.figures import Figure
from bench.side_by_side.row import Run
from bench.side_by_side.rows.volume import (
    _counted,
    _with_records,
    bare_rate,
    drop_from_memory,
    physical_share,
    pinned_to,
)
from bench.side_by_side.usage import Machine, Usage
from tests.unit.bench.fake_clusters import CONTESTANTS, Cluster


def test_brokers_leave_the_last_cpu_to_the_client_and_get_all_back(tmp_path: Path) -> None:
    cluster = Cluster(CONTESTANTS[0], tmp_path)
    every = sorted(os.sched_getaffinity(0))
    with pinned_to(Run(cluster, tmp_path, 1.0), pinned=True) as client:
        assert client == every[-1:]
        assert cluster.pins == [every[:-1] or every]
    assert cluster.pins == [every[:-1] or every, None]


def test_who_is_not_pinned_runs_anywhere(tmp_path: Path) -> None:
    cluster = Cluster(CONTESTANTS[0], tmp_path)
    with pinned_to(Run(cluster, tmp_path, 1.0), pinned=False) as client:
        assert client is None
    assert not cluster.pins


@pytest.mark.parametrize(("brokers", "runs"), [(0.5, 2), (0.6, 1), (0.25, 3), (0.001, 20)])
def test_a_client_runs_until_the_cpu_of_the_brokers_is_counted(brokers: float, runs: int, tmp_path: Path) -> None:
    def work() -> Volume:
        return Volume(1000, 2.0, used(brokers, cores=2), records=10)

    volume = _counted(Run(Cluster(CONTESTANTS[0], tmp_path), tmp_path, 1.0), work)
    assert (volume.payload_bytes, volume.seconds, volume.records) == (1000 * runs, 2.0 * runs, 10 * runs)
    assert volume.answers is None
    total = volume.usage
    assert (total.seconds, total.client, total.busiest_broker_thread, total.cores) == (2.0 * runs, runs, 0.5 * runs, 2)
    assert (total.brokers, total.kernel) == (pytest.approx(brokers * runs), pytest.approx(brokers * runs / 2))
    assert (total.machine.busy, total.machine.waiting_for_disk) == (1.5 * runs, 0.25 * runs)


def used(brokers: float, *, cores: int) -> Usage:
    return Usage(2.0, brokers, 1.0, 0.5, 1.0, Machine(1.5, 0.25), cores, kernel=brokers / 2)


def test_a_drain_has_the_records_that_its_bytes_hold(tmp_path: Path) -> None:
    for broker_id, partition, size in ((1, 0, 3000), (1, 1, 1000), (2, 0, 9000)):
        segment = tmp_path / f"broker-{broker_id}/logs/t-{partition}/0.log"
        segment.parent.mkdir(parents=True)
        segment.write_bytes(bytes(size))
    run = Run(Cluster(CONTESTANTS[0], tmp_path), tmp_path, 1.0)
    written = Volume(3000, 1.0, used(1.0, cores=2), records=40)
    assert _with_records(run, "t", written, Volume(8000, 1.0, used(1.0, cores=2))).records == 80


def test_the_physical_rate_is_that_of_the_better_buffer() -> None:
    of_brokers = int(SHIPPED["socket.send.buffer.bytes"])
    assert bare_rate({0: 7000.0, of_brokers: 9000.0}.__getitem__) == 9000.0
    assert bare_rate({0: 9000.0, of_brokers: 7000.0}.__getitem__) == 9000.0


@pytest.mark.parametrize(("bare", "is_judged"), [(2000.0, True), (1000.0, True), (999.0, False)])
def test_a_bare_loop_that_is_slower_than_a_broker_judges_nobody(bare: float, is_judged: bool) -> None:
    share = physical_share(Figure("MB/s", 1000.0, "MB/s", "broker", is_rate=True), bare)
    assert share.value == pytest.approx(1000.0 / bare)
    assert (not share.unjudged) is is_judged


def test_what_only_the_disk_is_to_have_leaves_the_memory_and_other_topics_stay(tmp_path: Path) -> None:
    if file_system(str(tmp_path)) == "tmpfs":
        pytest.skip("the directory of temporary files is in memory alone")
    size, left = 1 << 20, {}
    for name in ("read-0", "read-1", "other-0"):
        segment = tmp_path / "broker-1/logs" / name / "0.log"
        segment.parent.mkdir(parents=True)
        segment.write_bytes(bytes(size))
        left[name] = segment
    drop_from_memory(Run(Cluster(CONTESTANTS[0], tmp_path), tmp_path, 1.0), "read")
    for name, segment in left.items():
        with segment.open("rb") as file:
            # None where the kernel does not tell.
            assert pages_in_memory(file.fileno(), 0, size) in {None, 0 if name != "other-0" else pages_of(0, size)}
