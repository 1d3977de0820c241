import random

import pytest

from barnabas.protocol.ids import BrokerId
from zk_schema.cluster_id import new_cluster_id
from zk_schema.ops import Create, Delete, Set, Stat, Znode
from zk_schema.payloads import ProducerIdBlock
from zk_schema.producer_id_block import ProducerIdsExhausted, next_block
from zk_schema.registration import Registered, Taken, decide_registration

ONE = BrokerId(1)
PATH = "/brokers/ids/1"
MAKE = [Create(PATH, None, ephemeral=True), Set(PATH, b"new", 0)]


def owned_by(owner: int, data: bytes) -> Znode:
    return Znode(data, Stat(7, 7, 0, 0, 3, 0, owner, 0))


@pytest.mark.parametrize(
    ("present", "decision"),
    [
        (None, MAKE),
        (owned_by(5, b"new"), Registered),
        (owned_by(5, b"old"), [Delete(PATH, 3), *MAKE]),
        (owned_by(4, b"new"), [Delete(PATH, 3), *MAKE]),
        (owned_by(9, b"new"), Taken),
        (owned_by(0, b"new"), Taken),
    ],
)
def test_registration_depends_on_whose_znode_is_there(present: Znode | None, decision: object) -> None:
    decided = decide_registration(present, broker_id=ONE, data=b"new", session_id=5, previous_session_id=4)
    assert decided == decision or type(decided) is decision


def test_without_an_earlier_session_a_permanent_znode_is_not_mistaken_for_its() -> None:
    decided = decide_registration(owned_by(0, b""), broker_id=ONE, data=b"", session_id=5, previous_session_id=0)
    assert isinstance(decided, Taken)


def test_producer_id_blocks_follow_each_other_up_to_the_last() -> None:
    first = next_block(None, ONE)
    assert (first.first, first.last) == (0, 999)
    assert next_block(first, BrokerId(2)) == ProducerIdBlock(BrokerId(2), 1000, 1999)
    limit = 2**63 - 1
    assert next_block(ProducerIdBlock(ONE, 0, limit - 1001), ONE).last == limit - 1
    with pytest.raises(ProducerIdsExhausted):
        next_block(ProducerIdBlock(ONE, 0, limit - 1000), ONE)


def test_a_cluster_id_is_a_uuid_in_22_characters(seed: int) -> None:
    import base64
    import uuid

    chance = random.Random(seed)
    for _ in range(50):
        text = new_cluster_id(chance)
        assert len(text) == 22
        number = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
        assert (number.version, number.variant) == (4, uuid.RFC_4122)
