"""Cutting a log: what stays, and that indexes, epochs, producers and the high watermark follow."""

from barnabas.protocol.entries import iterate_entries
from barnabas.simulation.disk import SimulatedDisk
from barnabas.storage.log_config import LogConfig
from tests.unit.storage.logs import NOW, Owner, append, batch, make_log, make_ports, offset_for_timestamp, read_bytes

ONE = len(batch(b"v" * 20))


def filled(tmp_path, count=10, segment_batches=3):
    owner = Owner()
    config = LogConfig(segment_bytes=segment_batches * ONE, index_interval_bytes=1)
    log = make_log(str(tmp_path), config, make_ports(owner=owner))
    for number in range(count):
        append(
            log,
            batch(b"v" * 20, timestamp=NOW + number * 10, producer=(7, 0, number)),
            leader_epoch=number // 2,
        )
    log.advance_high_watermark(count)
    return log, owner


def bases(log):
    found, offset = [], log.log_start_offset
    while data := read_bytes(log, offset):
        found += [header.base_offset for _, header in iterate_entries(data)]
        offset = found[-1] + 1
    return found


def check(log, end):
    assert (log.log_end_offset, log.high_watermark) == (end, end)
    assert bases(log) == list(range(end))
    assert log.leader_epochs.latest_epoch == (end - 1) // 2
    assert log.producers.get(7).last_sequence == end - 1
    assert [offset_for_timestamp(log, NOW + number * 10).offset for number in range(end)] == list(range(end))
    assert offset_for_timestamp(log, NOW + end * 10) is None
    info = append(log, batch(b"v" * 20, timestamp=NOW + 1000, producer=(7, 0, end)), leader_epoch=9)
    assert info.first_offset == end
    assert offset_for_timestamp(log, NOW + 999).offset == end


def test_any_offset_can_be_cut_to(tmp_path):
    for end in range(1, 10):
        log, _ = filled(tmp_path / str(end))
        assert log.truncate_to(end)
        check(log, end)


def test_a_closed_segment_grows_again_after_a_cut(tmp_path):
    log, owner = filled(tmp_path)
    owner.work()
    assert log.segments[0].growing is None
    log.truncate_to(2)
    check(log, 2)
    assert sorted(path.name for path in (tmp_path / "topic-0").glob("*.log*")) == [
        "00000000000000000000.log",
        "00000000000000000003.log.deleted",
        "00000000000000000006.log.deleted",
        "00000000000000000009.log.deleted",
    ]
    owner.work()
    assert len(list((tmp_path / "topic-0").glob("*.deleted"))) == 0


def test_a_cut_to_the_end_only_drops_an_epoch_of_which_nothing_was_written(tmp_path):
    log, _ = filled(tmp_path)
    log.assign_leader_epoch(50, start_offset=10)
    assert not log.truncate_to(10)
    assert not log.truncate_to(99)
    assert log.leader_epochs.latest_epoch == 4
    assert bases(log) == list(range(10))


def test_a_cut_to_nothing_leaves_an_empty_log_that_takes_batches(tmp_path):
    log, _ = filled(tmp_path, 2)
    log.truncate_to(0)
    assert (log.log_end_offset, log.leader_epochs.latest_epoch, log.producers.get(7)) == (0, -1, None)
    append(log, batch(b"v"))
    assert bases(log) == [0]


def test_a_cut_below_the_first_segment_starts_the_log_there(tmp_path):
    log, owner = filled(tmp_path)
    log.advance_log_start_offset(7)
    log.delete_old_segments(NOW)
    owner.work()
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    assert append(log, batch(b"v")).first_offset == 2


def test_starting_elsewhere_moves_the_high_watermark_along(tmp_path):
    log, owner = filled(tmp_path)
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (500, 500, 500)
    assert (log.leader_epochs.entries, len(log.producers), log.snapshots.offsets) == ((), 0, ())
    owner.work()
    append(log, batch(b"v"))
    assert bases(log) == [500]
    log.truncate_fully_and_start_at(500)
    assert append(log, batch(b"v")).first_offset == 500


def test_a_cut_inside_a_batch_ends_where_the_batch_began(tmp_path):
    log = make_log(str(tmp_path))
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    log.truncate_to(2)
    assert log.log_end_offset == 1
    assert append(log, batch(b"x")).first_offset == 1


def test_producers_after_a_cut_come_from_the_snapshot_and_the_batches_after_it(tmp_path):
    log, owner = filled(tmp_path)
    owner.work()
    assert log.snapshots.offsets == (3, 6, 9)
    log.truncate_to(8)
    assert log.snapshots.offsets == (3, 6)
    assert [batch.last_sequence for batch in log.producers.get(7).batches] == [5, 6, 7]


def test_a_cut_reads_small_batches_of_many_producers_in_stretches():
    disk = SimulatedDisk()
    log = make_log("/logs", None, make_ports(disk))
    for number in range(300):
        append(log, batch(b"v" * 20, producer=(number, 0, 0)))
    log.advance_high_watermark(300)
    reads: list[str] = []
    disk.on_operation = lambda kind, _: reads.append(kind) if kind == "pread" else None
    assert log.truncate_to(250)
    assert len(log.producers) == 250
    assert len(reads) < 20, "a slow device is asked once for many"
