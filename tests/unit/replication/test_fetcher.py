"""A fetcher and its leader: what is fetched, truncated, delayed, and what one partition's trouble costs the others."""

import asyncio

import pytest

from barnabas.client.connection import Address
from barnabas.client.errors import ConnectionFailed
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.protocol.messages.list_offsets import ListOffsetRequest
from barnabas.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from barnabas.protocol.records import Record
from tests.support.virtual_time import turns, virtual_time
from tests.unit.protocol.old_formats import build
from tests.unit.replication.following import caught_up, open_following
from tests.unit.replication.replica_world import ME, OTHER, TP
from tests.unit.storage.logs import NOW, read_bytes

FEW = [TopicPartition("t", number) for number in range(4)]
MANY = [TopicPartition("t", number) for number in range(200)]


@virtual_time
async def test_what_the_leader_has_and_what_it_writes_is_here_soon() -> None:
    following, its, _ = await caught_up()
    its.write(b"d", b"e")
    following.leader.wake()
    await turns(30)
    assert following.has_all()
    assert its.follower_end == 5
    await following.stop()


@virtual_time
async def test_the_high_watermark_follows_the_leaders_as_far_as_there_are_records() -> None:
    following, its, partition = await caught_up()
    its.write(b"d", committed=False)
    following.leader.wake()
    await turns(30)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (4, 3)
    its.high_watermark = 4
    await asyncio.sleep(1)
    assert partition.log.high_watermark == 4
    await following.stop()


@virtual_time
async def test_the_log_start_follows_the_leaders() -> None:
    following, its, partition = await caught_up()
    its.delete_before(2)
    await asyncio.sleep(1)
    assert partition.log.log_start_offset == 2
    await asyncio.sleep(1)
    assert its.follower_start == 2
    await following.stop()


@virtual_time
async def test_a_log_start_that_retention_moved_here_is_told_the_leader() -> None:
    following, its, partition = await caught_up()
    partition.log.advance_log_start_offset(1)
    await asyncio.sleep(31)
    assert its.follower_start == 1
    await following.stop()


@virtual_time
async def test_idle_fetches_name_no_partition() -> None:
    following = await open_following()
    for at in FEW:
        following.leader.add(at).write(b"v")
        await following.follow(at)
    await asyncio.sleep(2)
    before = len(following.leader.fetches())
    await asyncio.sleep(10)
    idle = following.leader.fetches()[before:]
    assert 19 <= len(idle) <= 21
    assert all(not request.topics and not request.forgotten_topics_data for request in idle)
    await following.stop()


@virtual_time
async def test_a_new_epoch_is_asked_about_before_anything_is_fetched_in_it() -> None:
    following, its, partition = await caught_up()
    its.begin_epoch(3)
    its.write(b"d")
    following.leader.asked.clear()
    await following.follow(epoch=3)
    await asyncio.sleep(1)
    kinds = [type(request) for _, request in following.leader.asked]
    assert kinds.index(OffsetForLeaderEpochRequest) == 0 or kinds[1] is OffsetForLeaderEpochRequest
    assert following.has_all()
    assert partition.log.leader_epochs.latest_epoch == 3
    await following.stop()


@virtual_time
async def test_records_that_the_new_leader_has_not_are_cut() -> None:
    following, its, partition = await caught_up(b"a", b"b", b"c", b"d")
    its.cut(2)
    its.begin_epoch(1)
    its.write(b"x")
    await following.follow(epoch=1)
    await asyncio.sleep(1)
    assert following.has_all()
    assert [entry.epoch for entry in partition.log.leader_epochs.entries] == [0, 1]
    await following.stop()


@virtual_time
async def test_two_leader_changes_are_told_apart_by_asking_twice() -> None:
    # KIP-279: this log has epochs 0 and 2, the leader 0, 1 and 3; asked for 2 it answers 1, which is not here.
    following, its, partition = await caught_up(b"a", b"b")
    its.begin_epoch(2)
    its.write(b"c2")
    await following.follow(epoch=2)
    await asyncio.sleep(1)
    its.cut(1)
    its.begin_epoch(1)
    its.write(b"x1", b"y1", b"z1")
    its.begin_epoch(3)
    its.write(b"w3")
    await following.follow(epoch=3)
    await asyncio.sleep(2)
    assert following.has_all()
    assert [tuple(entry) for entry in partition.log.leader_epochs.entries] == [(0, 0), (1, 1), (3, 4)]
    await following.stop()


@virtual_time
async def test_a_log_that_never_had_an_epoch_begins_at_once() -> None:
    following = await open_following()
    following.leader.add(TP).write(b"a")
    await following.follow()
    await turns(40)
    assert following.has_all()
    assert not any(isinstance(request, OffsetForLeaderEpochRequest) for _, request in following.leader.asked)
    await following.stop()


@virtual_time
async def test_what_the_leader_deleted_is_skipped() -> None:
    following, its, partition = await caught_up()
    following.fetchers.unfollow(TP)
    its.write(b"d", b"e")
    its.write(b"f")
    its.delete_before(5)
    following.fetchers.follow(partition)
    await asyncio.sleep(2)
    assert following.has_all()
    assert partition.log.log_start_offset == 5
    await following.stop()


@virtual_time
async def test_a_leader_that_starts_within_a_batch_is_followed() -> None:
    # KAFKA-6975
    following = await open_following()
    its = following.leader.add(TP)
    its.write(b"a", b"b")
    its.write(b"c", b"d", b"e")
    its.write(b"f")
    its.delete_before(3)
    partition = await following.follow()
    await asyncio.sleep(2)
    log_ = partition.log
    assert (log_.log_start_offset, log_.high_watermark, log_.log_end_offset) == (3, 6, 6)
    assert read_bytes(log_, 3) == its.read(3, 1 << 30)
    await following.stop()


@virtual_time
async def test_a_leader_that_ends_earlier_after_an_unclean_election_cuts_the_log() -> None:
    following, its, partition = await caught_up()
    its.cut(1)
    await following.follow(epoch=1)
    its.leader_epoch = 1
    await asyncio.sleep(2)
    assert partition.log.log_end_offset == 1
    await following.stop()


@virtual_time
async def test_the_range_is_asked_for_where_the_offset_is_out_of_it() -> None:
    following, its, partition = await caught_up()
    its.cut(1)
    following.leader.wake()
    await asyncio.sleep(2)
    assert partition.log.log_end_offset == 1
    assert [request.topics[0].partitions[0].timestamp for _, request in following.leader.asked
            if isinstance(request, ListOffsetRequest)] == [-1, -2]  # fmt: skip
    await following.stop()


# Errors.


@virtual_time
async def test_an_error_of_one_partition_delays_only_that() -> None:
    following = await open_following()
    for at in FEW:
        following.leader.add(at).write(b"v")
    following.leader.errors[FEW[1]] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for at in FEW:
        await following.follow(at)
    await asyncio.sleep(0.02)
    assert [following.has_all(at) for at in FEW] == [True, False, True, True]
    del following.leader.errors[FEW[1]]
    await asyncio.sleep(1.1)
    assert following.has_all(FEW[1])
    await following.stop()


@virtual_time
async def test_a_partition_that_goes_on_failing_is_asked_for_at_the_backoff() -> None:
    following = await open_following(backoff_ms=1000)
    following.leader.add(TP)
    following.leader.errors[TP] = ErrorCode.UNKNOWN_LEADER_EPOCH
    await following.follow()
    await asyncio.sleep(5)
    before = len(following.leader.asked)
    await asyncio.sleep(10)
    assert 9 <= len(following.leader.asked) - before <= 11
    await following.stop()


@virtual_time
async def test_a_leader_that_takes_connections_and_answers_none_is_asked_at_the_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang_up(*_: object) -> None:
        raise ConnectionFailed("the peer closed it")

    following = await open_following(backoff_ms=1000)
    following.leader.add(TP).write(b"v")
    monkeypatch.setattr(following.leader, "answer", hang_up)
    await following.follow()
    await asyncio.sleep(5)
    before = len(following.leader.connections)
    await asyncio.sleep(10)
    assert 9 <= len(following.leader.connections) - before <= 11
    monkeypatch.undo()
    await asyncio.sleep(1.1)
    assert following.has_all()
    following.leader.go_down()
    following.leader.is_down = False
    following.leader.logs[TP].write(b"w")
    await asyncio.sleep(0.1)
    assert following.has_all(), "the first failure after a success is soon tried again"
    await following.stop()


@virtual_time
async def test_a_fenced_partition_waits_for_the_next_epoch() -> None:
    following, its, _ = await caught_up()
    its.begin_epoch(1)
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(1)
    assert following.fetchers.figures().stopped_partitions == 1
    asked = len(following.leader.asked)
    await asyncio.sleep(10)
    assert len(following.leader.asked) == asked
    await following.follow(epoch=1)
    await asyncio.sleep(1)
    assert following.has_all()
    assert following.fetchers.figures().stopped_partitions == 0
    await following.stop()


@virtual_time
async def test_a_leader_that_comes_back_is_fetched_from_again() -> None:
    following, its, _ = await caught_up()
    following.leader.go_down()
    await asyncio.sleep(5)
    its.write(b"d")
    following.leader.is_down = False
    await asyncio.sleep(1.1)
    assert following.has_all()
    await following.stop()


@virtual_time
async def test_a_leader_that_says_nothing_is_given_up_after_the_timeout() -> None:
    following, its, _ = await caught_up(socket_timeout_ms=3000)
    following.leader.is_hung = True
    await asyncio.sleep(4)
    following.leader.is_hung = False
    its.write(b"d")
    await asyncio.sleep(5)
    assert following.has_all()
    assert len(following.leader.connections) > 1
    await following.stop()


@virtual_time
async def test_a_forgotten_session_is_made_again_at_once() -> None:
    following, its, _ = await caught_up()
    following.leader.forget_session()
    its.write(b"d")
    following.leader.wake()
    await turns(60)
    await asyncio.sleep(0.6)
    assert following.has_all()
    await following.stop()


@virtual_time
async def test_without_sessions_everything_is_named_each_time() -> None:
    following, its, _ = await caught_up()
    following.leader.has_sessions = False
    its.write(b"d")
    await asyncio.sleep(3)
    assert following.has_all()
    assert all(request.topics for request in following.leader.fetches()[-3:])
    await following.stop()


@virtual_time
async def test_bytes_that_are_not_the_leaders_are_not_appended_and_asked_for_again() -> None:
    following, its, partition = await caught_up()
    its.write(b"d")
    base, after, data = its.batches[-1]
    its.batches[-1] = base, after, data[:-1] + b"?"
    following.leader.wake()
    await asyncio.sleep(3)
    assert partition.log.log_end_offset == 3
    its.batches[-1] = base, after, data
    await asyncio.sleep(1.1)
    assert following.has_all()
    await following.stop()


@virtual_time
async def test_a_partition_that_is_followed_no_more_is_not_written_to() -> None:
    following, its, partition = await caught_up()
    following.fetchers.unfollow(TP)
    its.write(b"d")
    await asyncio.sleep(2)
    assert partition.log.log_end_offset == 3
    assert not following.leader.fetches()[-1].topics
    following.fetchers.stop_idle()
    assert len(following.fetchers) == 0
    await following.stop()


@virtual_time
async def test_an_answer_that_comes_after_a_new_epoch_changes_nothing() -> None:
    following, its, partition = await caught_up()
    # The fetch under way was asked in epoch 0; when it is answered this broker leads.
    await partition.become_leader(
        leader_epoch=LeaderEpoch(1), isr=(ME,), replicas=(ME, OTHER), zk_version=1, min_in_sync_replicas=1
    )
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(2)
    assert partition.log.log_end_offset == 3
    await following.stop()


@virtual_time
async def test_an_answer_to_a_fetch_of_an_earlier_epoch_is_not_taken() -> None:
    following, its, partition = await caught_up()
    following.leader.latency_s = 0.1
    await asyncio.sleep(1)
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(0.05)
    # The answer is under way; the leader of the new epoch, the same broker, has not heard of it yet.
    await following.follow(epoch=1)
    await asyncio.sleep(5)
    assert partition.log.log_end_offset == 3
    await following.stop()


@virtual_time
async def test_a_partition_whose_epoch_changes_while_the_leader_is_asked_is_asked_about_again() -> None:
    following, its, _ = await caught_up()
    following.leader.latency_s = 0.1
    for epoch in (1, 2):
        its.begin_epoch(epoch)
        await following.follow(epoch=epoch)
        while not isinstance(following.leader.asked[-1][1], OffsetForLeaderEpochRequest):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
    its.write(b"d")
    await asyncio.sleep(2)
    assert following.has_all()
    await following.stop()


@virtual_time
async def test_a_leader_that_comes_back_elsewhere_is_fetched_from_there() -> None:
    following, its, _ = await caught_up()
    following.leader.address = Address("elsewhere", 9092)
    its.write(b"d")
    await asyncio.sleep(1)
    assert following.has_all()
    old, new = following.leader.connections
    assert (old.is_open, new.address) == (False, following.leader.address)
    assert 0 in [request.session_epoch for request in following.leader.fetches()[-3:]]
    await following.stop()


@virtual_time
async def test_a_leader_that_is_not_known_to_live_is_looked_for_until_it_is() -> None:
    following = await open_following()
    following.leader.address = None
    following.leader.add(TP).write(b"a")
    await following.follow()
    await asyncio.sleep(3)
    assert following.leader.connections == []
    following.leader.address = Address("elsewhere", 9092)
    await asyncio.sleep(1.1)
    assert following.has_all()
    await following.stop()


@virtual_time
async def test_thousands_of_old_messages_come_whole_and_are_counted_once() -> None:
    following = await open_following()
    its = following.leader.add(TP)
    sent = build([Record(at, NOW, None, b"v") for at in range(1800)], magic=1)
    its.batches.append((0, 1800, sent))
    its.end = its.high_watermark = 1800
    await following.follow()
    await asyncio.sleep(1)
    assert following.has_all()
    assert following.fetchers.figures().received_bytes == following.world.ports.counts.bytes_in == len(sent)
    await following.stop()


@virtual_time
async def test_what_a_slow_directory_takes_is_counted_once() -> None:
    following, its, _ = await caught_up()
    before = following.fetchers.figures().received_bytes
    following.world.directory.writes_inline = False
    its.write(b"d", b"e")
    following.leader.wake()
    await asyncio.sleep(1)
    assert following.has_all()
    assert following.fetchers.figures().received_bytes - before == len(its.batches[-1][2])
    await following.stop()


@virtual_time
async def test_figures_tell_how_far_behind_and_how_busy_it_is() -> None:
    following, its, _ = await caught_up(partition_max_bytes=1)
    idle = following.fetchers.figures()
    assert (idle.fetchers, idle.max_lag, idle.stopped_partitions) == (1, 0, 0)
    for _ in range(3):
        its.write(b"d")
    following.leader.wake()
    lags = set()
    while not following.has_all():
        lags.add(following.fetchers.figures().max_lag)
        await asyncio.sleep(0)
    assert lags == {0, 1, 2}
    busy = following.fetchers.figures()
    assert busy.requests >= idle.requests + 3
    assert busy.received_bytes - idle.received_bytes == sum(len(data) for _, _, data in its.batches[3:])
    await following.stop()
