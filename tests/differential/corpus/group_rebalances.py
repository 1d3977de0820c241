"""Groups of more than one member: joins that wait, protocols by vote, members that leave while others wait."""

from tests.differential.conversation import Conversation, Pending
from tests.differential.coordinator_requests import RANGE, SUBSCRIPTION, beat, join, leave_alone, sync

REBALANCE = (0,)
STICKY, ROUND_ROBIN = ("sticky", b"s"), ("roundrobin", b"r")


def _begin(talk: Conversation, group_id: str, *protocols: tuple[str, bytes]) -> str:
    """A group of one Stable member."""
    leader = talk.ask("the first joins", 3, join(group_id, "", *protocols)).member_id
    talk.ask("the first syncs", 2, sync(group_id, 1, leader, {leader: b"all"}))
    return str(leader)


def _second_joins(talk: Conversation, group_id: str, leader: str, *protocols: tuple[str, bytes]) -> Pending:
    second = talk.send("the second joins", 3, join(group_id, "", *protocols), apart=True)
    talk.ask_until("the first hears of it", 3, beat(group_id, 1, leader), passing=REBALANCE)
    return second


def a_second_member(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id)
    waiting = _second_joins(talk, group_id, leader)
    talk.note("the second waits", talk.is_waiting(waiting))
    talk.ask("the first syncs while it should join", 2, sync(group_id, 1, leader))
    talk.ask("the first joins again", 3, join(group_id, leader))
    second = talk.receive(waiting).member_id
    talk.ask("the first beats before the sync", 3, beat(group_id, 2, leader))
    syncing = talk.send("the second syncs", 2, sync(group_id, 2, second), apart=True)
    talk.note("its sync waits", talk.is_waiting(syncing))
    talk.ask("the first syncs again", 2, sync(group_id, 2, leader, {leader: b"half", second: b"the other half"}))
    talk.receive(syncing)
    talk.ask("the second beats", 3, beat(group_id, 2, second))
    talk.ask("the second joins again unchanged", 3, join(group_id, second))
    talk.ask("the second beats in the old generation", 3, beat(group_id, 1, second))


def the_leader_leaves(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id)
    waiting = _second_joins(talk, group_id, leader)
    talk.ask("the first leaves", 2, leave_alone(group_id, leader))
    second = talk.receive(waiting).member_id
    talk.ask("the second syncs", 2, sync(group_id, 2, second, {second: b"all"}))
    talk.ask("the second beats", 3, beat(group_id, 2, second))
    talk.ask("the first beats", 3, beat(group_id, 2, leader))


def a_member_leaves_while_the_other_waits_for_the_leader(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id)
    waiting = _second_joins(talk, group_id, leader)
    talk.ask("the first joins again", 3, join(group_id, leader))
    second = talk.receive(waiting).member_id
    syncing = talk.send("the second syncs", 2, sync(group_id, 2, second), apart=True)
    talk.note("its sync waits", talk.is_waiting(syncing))
    talk.ask("the first leaves", 2, leave_alone(group_id, leader))
    talk.receive(syncing)
    talk.ask("the second joins again", 3, join(group_id, second))


def protocols_by_vote(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id, RANGE, STICKY, ROUND_ROBIN)
    waiting = _second_joins(talk, group_id, leader, ROUND_ROBIN, STICKY)
    talk.ask("the first joins again", 3, join(group_id, leader, ROUND_ROBIN, STICKY))
    second = talk.receive(waiting).member_id
    third = talk.send("a third joins", 3, join(group_id, "", ROUND_ROBIN, STICKY), apart=True)
    talk.ask_until("the second hears of it", 3, beat(group_id, 2, second), passing=(0,))
    again = talk.send("the second joins again", 3, join(group_id, second, ROUND_ROBIN, STICKY), apart=True)
    talk.ask("the first joins a third time", 3, join(group_id, leader, STICKY, ROUND_ROBIN))
    talk.receive(again)
    talk.receive(third)


def who_does_not_fit(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id)
    talk.ask("another protocol", 3, join(group_id, "", STICKY))
    talk.ask("another type", 3, join(group_id, "", RANGE, protocol_type="connect"))
    talk.ask("another protocol of a member", 3, join(group_id, leader, STICKY))
    talk.ask("the member beats", 3, beat(group_id, 1, leader))


def a_follower_with_other_metadata(talk: Conversation) -> None:
    group_id = talk.new_group()
    leader = _begin(talk, group_id)
    waiting = _second_joins(talk, group_id, leader)
    talk.ask("the first joins again", 3, join(group_id, leader))
    second = talk.receive(waiting).member_id
    talk.ask("the first syncs again", 2, sync(group_id, 2, leader, {leader: b"1", second: b"2"}))
    changed = talk.send(
        "the second joins changed", 3, join(group_id, second, ("range", SUBSCRIPTION + b"x")), apart=True
    )
    talk.ask_until("the first hears of that", 3, beat(group_id, 2, leader), passing=REBALANCE)
    talk.ask("the first joins once more", 3, join(group_id, leader))
    talk.receive(changed)
