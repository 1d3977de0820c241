"""Sticky (KIP-54) and cooperative sticky (KIP-429): even, and with few moves from one generation to the next. Pure.

Members tell what they own. Of several that claim a partition the one with the newest generation has it; where even
those are equal nobody has. Sticky members send their claims as user data, as they give everything up before they join;
cooperative ones in the subscription, with the generation in the user data too, where Kafka 3.0 looks for it (KIP-792
moved it to the subscription).
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple

from barnabas.client.assignors.assignor import Assignment
from barnabas.client.assignors.balance import Balance
from barnabas.client.group_protocol import NO_GENERATION, Subscription, TopicPartitions, by_topic
from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.primitives import I32, WireError
from barnabas.protocol.schema import field, message

_GENERATION: Final = Struct(">i")


@message(versions=(0, 1))
class StickyUserData:
    """What a member of a sticky group had; version 1 adds since when (KIP-341). No version stands in front."""

    previous_assignment: list[TopicPartitions] = field(default_factory=list)
    generation: I32 = field(default=NO_GENERATION, since=1, ignorable=True)


class Claim(NamedTuple):
    """Partitions that a member has had since a generation, -1 where that is not known."""

    partitions: tuple[TopicPartition, ...]
    generation_id: int


class StickyAssignor:
    """Even; a member keeps what it had as far as that allows. Everything is given up while members join."""

    name: Final = "sticky"
    is_cooperative: Final = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        if generation_id == NO_GENERATION:
            return None
        return encode(StickyUserData(by_topic(owned), generation_id), 1)

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        claims = {member_id: _claim_of_user_data(each.user_data) for member_id, each in members.items()}
        return _assign(partition_counts, members, claims)


class CooperativeStickyAssignor:
    """Even; members keep reading what they keep. What another member still has is given to nobody this time.

    That member finds it missing, gives it up and joins again; the new owner gets it then.
    """

    name: Final = "cooperative-sticky"
    is_cooperative: Final = True

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:  # noqa: ARG002
        return _GENERATION.pack(generation_id)

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        claims = {member_id: Claim(each.owned, _generation_of(each)) for member_id, each in members.items()}
        assignment = _assign(partition_counts, members, claims)
        claimants: dict[TopicPartition, set[str]] = {}
        for member_id, claim in claims.items():
            for each in claim.partitions:
                claimants.setdefault(each, set()).add(member_id)
        for member_id, partitions in assignment.items():
            partitions[:] = [each for each in partitions if member_id in claimants.get(each, {member_id})]
        return assignment


def _assign(
    partition_counts: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Assignment:
    topics_of = {member_id: each.topics for member_id, each in members.items()}
    return Balance(partition_counts, topics_of, newest_owners(claims)).assignment()


def newest_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Who has each partition: the claimant with the newest generation, nobody where two have the same."""
    newest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for each in dict.fromkeys(claim.partitions):
            generation_id, _ = newest.get(each, (NO_GENERATION - 1, None))
            if claim.generation_id > generation_id:
                newest[each] = claim.generation_id, member_id
            elif claim.generation_id == generation_id:
                newest[each] = generation_id, None
    return {each: member_id for each, (_, member_id) in newest.items() if member_id is not None}


def _claim_of_user_data(data: bytes | None) -> Claim:
    """A claim in either version; what cannot be read claims nothing, as Kafka has it."""
    for version in (1, 0):
        try:
            found = decode_whole(StickyUserData, version, data or b"")
        except WireError:
            continue
        partitions = [TopicPartition(each.topic, at) for each in found.previous_assignment for at in each.partitions]
        return Claim(tuple(partitions), found.generation)
    return Claim((), NO_GENERATION)


def _generation_of(subscription: Subscription) -> int:
    if subscription.generation_id != NO_GENERATION or len(subscription.user_data or b"") != _GENERATION.size:
        return subscription.generation_id
    assert subscription.user_data is not None
    return int(_GENERATION.unpack(subscription.user_data)[0])
