"""What is done about damage by role, and which of a leader's batches may take its place."""

import pytest

from barnabas.protocol.batch import read_header
from barnabas.protocol.ids import NO_LEADER, BrokerId
from barnabas.storage.leader_epochs import EpochEntry
from replication.mend_plan import EndMismatch, OnDamage, UnfitBatches, decide_on_damage, take_batches
from tests.unit.storage.logs import batch

EPOCHS = (EpochEntry(0, 0), EpochEntry(2, 6))


def decide(*, leader=2, isr=(), end=5, high_watermark=5):
    return decide_on_damage(
        broker_id=BrokerId(1), leader_id=BrokerId(leader), isr=isr, end_offset=end, high_watermark=high_watermark
    )


def test_a_follower_mends_what_is_below_the_high_watermark():
    assert decide() is OnDamage.MEND
    assert decide(end=6) is OnDamage.WAIT
    assert decide(leader=NO_LEADER) is OnDamage.WAIT


def test_a_leader_resigns_where_another_is_in_sync():
    assert decide(leader=1, isr=(1, 2)) is OnDamage.RESIGN
    assert decide(leader=1, isr=(1,)) is OnDamage.WAIT


def one(offset, epoch=0, value=b"v"):
    return bytes(batch(value, base_offset=offset, leader_epoch=epoch))


def take(data, *, start=2, end=5, next_checksum=None):
    taken = take_batches(data, start_offset=start, end_offset=end, next_checksum=next_checksum, epochs=EPOCHS)
    return taken.data, taken.next_offset, taken.is_complete


def test_the_batches_up_to_the_end_of_the_damage_are_taken():
    wanted = one(2) + one(3) + one(4)
    assert take(wanted + one(5)) == (wanted, 5, True)
    assert take(wanted) == (wanted, 5, True)


def test_a_cut_answer_is_gone_on_with():
    assert take(one(2) + one(3)[:-1]) == (one(2), 3, False)
    assert take(b"") == (b"", 2, False)


def test_a_leader_that_compacted_has_less():
    assert take(one(3) + one(7, 2)) == (one(3), 5, True)
    assert take(one(7, 2)) == (b"", 5, True)


def test_the_next_good_batch_must_be_the_leaders_too():
    checksum = read_header(one(5)).crc
    assert take(one(2) + one(5), next_checksum=checksum) == (one(2), 5, True)
    for other in (one(5, value=b"w"), one(6, 2)):
        with pytest.raises(EndMismatch):
            take(one(2) + other, next_checksum=checksum)


def test_a_batch_over_the_end_means_that_the_end_is_wrong():
    with pytest.raises(EndMismatch):
        take(one(2) + bytes(batch(b"a", b"b", b"c", base_offset=3, leader_epoch=0)))


def test_what_is_damaged_itself_begins_too_early_or_is_of_another_epoch_is_not_taken():
    bad = bytearray(one(2))
    bad[-1] ^= 1
    for data in (bytes(bad), one(1), one(2, 1)):
        with pytest.raises(UnfitBatches):
            take(data)
