"""Members with an instance id (KIP-345): they come back without a rebalance, and fence who they were."""

from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import RANGE, beat, commit, join, leave, sync


def _begin(talk: Conversation, group_id: str) -> str:
    member_id = talk.ask("the instance joins", 5, join(group_id, instance="i")).member_id
    talk.ask("the instance syncs", 3, sync(group_id, 1, member_id, {member_id: b"all"}, instance="i"))
    return str(member_id)


def an_instance_joins_without_a_second_request(talk: Conversation) -> None:
    for version in (5, 6, 7):
        group_id = talk.new_group()
        member_id = talk.ask(f"join {version}", version, join(group_id, instance="i")).member_id
        talk.ask(f"beat after {version}", 3, beat(group_id, 1, member_id, "i"))


def an_instance_comes_back(talk: Conversation) -> None:
    group_id = talk.new_group()
    old = _begin(talk, group_id)
    new = talk.ask("it joins again without its id", 5, join(group_id, instance="i")).member_id
    talk.note("it has another id", old != new)
    talk.ask("the old one beats", 3, beat(group_id, 1, old, "i"))
    talk.ask("the old one beats without the instance", 3, beat(group_id, 1, old))
    talk.ask("the old one joins", 5, join(group_id, old, instance="i"))
    talk.ask("the old one syncs", 3, sync(group_id, 1, old, instance="i"))
    topic = talk.new_topic()
    request = commit(group_id, {topic: {0: 1}}, generation_id=1, member_id=old, instance="i")
    talk.ask("the old one commits", 7, request)
    talk.ask("the old one leaves", 3, leave(group_id, (old, "i")))
    talk.ask("the new one beats", 3, beat(group_id, 1, new, "i"))
    talk.ask("the new one syncs", 3, sync(group_id, 1, new, instance="i"))


def an_instance_comes_back_with_another_protocol(talk: Conversation) -> None:
    group_id = talk.new_group()
    _begin(talk, group_id)
    talk.ask("another one first, and the old", 5, join(group_id, "", ("sticky", b"s"), RANGE, instance="i"))
    talk.ask("another one alone", 5, join(group_id, "", ("sticky", b"s"), instance="i"))


def an_instance_with_its_id(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = _begin(talk, group_id)
    talk.ask("joins again", 5, join(group_id, member_id, instance="i"))
    talk.ask("as another instance", 5, join(group_id, member_id, instance="j"))
    talk.ask("as none", 5, join(group_id, member_id))
    talk.ask("beats as another instance", 3, beat(group_id, 2, member_id, "j"))


def an_instance_leaves_by_its_name(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = _begin(talk, group_id)
    talk.ask("with another id", 3, leave(group_id, ("other", "i")))
    talk.ask("another instance", 3, leave(group_id, (member_id, "j")))
    talk.ask("without an id", 3, leave(group_id, ("", "i")))
    talk.ask("once more", 3, leave(group_id, ("", "i")))
    talk.ask("it beats", 3, beat(group_id, 1, member_id, "i"))


def instance_ids_of_any_kind(talk: Conversation) -> None:
    for name, instance in {"empty": "", "long": "i" * 500, "words": "caf\u00e9", "dots": ".."}.items():
        talk.ask(name, 5, join(talk.new_group(), instance=instance))
