"""A group and its record in the log, in both directions. Pure.

The log holds the generation that was last agreed on: its members with what they said under the chosen protocol, and
what each was assigned. A group that is read from it is Stable, or Empty where it has no members.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.coordinator.group_records import NO_TIMESTAMP, GroupMetadata, MemberMetadata
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member
from barnabas.coordinator.groups.states import GroupState

_NOBODY: Final = object()


def to_metadata(group: Group, assignments: Mapping[str, bytes], wall_ms: int) -> GroupMetadata:
    """The present generation; `assignments` by member id, nothing for who is not among them."""
    name = group.protocol_name
    assert name is not None or not group.members, f"group {group.group_id} has formed no generation"
    members = tuple(
        MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(name or ""),
            assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    )
    return GroupMetadata(group.protocol_type or "", group.generation_id, name, group.leader_id, wall_ms, members)


def apply_metadata(group: Group, metadata: GroupMetadata) -> None:
    """Make the group what its record says. Of members that it knows, what the log does not hold stays as it is.

    Raises ValueError for a record that no group can be made of; the group is unchanged then.
    """
    name = metadata.protocol_name
    if metadata.members and name is None:
        raise ValueError(f"group {group.group_id} has {len(metadata.members)} members and no protocol")
    instance_of = {stored.member_id: stored.group_instance_id for stored in metadata.members}
    instances = [instance for instance in instance_of.values() if instance is not None]
    if len(instance_of) < len(metadata.members) or len(set(instances)) < len(instances):
        raise ValueError(f"group {group.group_id} has two members of one name among {sorted(instance_of)}")
    for member in list(group.members.values()):
        if instance_of.get(member.member_id, _NOBODY) != member.group_instance_id:
            group.remove(member)
    for stored in metadata.members:
        _apply_member(group, stored, name or "", metadata.protocol_type)
    group.members = {member_id: group.members[member_id] for member_id in instance_of}
    group.protocol_type = metadata.protocol_type or None
    group.protocol_name = name
    group.generation_id = metadata.generation_id
    if metadata.leader_id in group.members:
        group.leader_id = metadata.leader_id
    group.state = GroupState.STABLE if metadata.members else GroupState.EMPTY
    since_ms = metadata.current_state_timestamp_ms
    group.state_since_ms = None if since_ms == NO_TIMESTAMP else since_ms
    group.replays += 1
    group.learn_subscriptions()


def _apply_member(group: Group, stored: MemberMetadata, protocol_name: str, protocol_type: str) -> None:
    member = group.members.get(stored.member_id)
    if member is None:
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout_ms,
            stored.rebalance_timeout_ms,
            ((protocol_name, stored.subscription),),
        )
        group.add(member, protocol_type)
    elif not member.knows(protocol_name) or member.metadata(protocol_name) != stored.subscription:
        group.set_protocols(member, ((protocol_name, stored.subscription),))
    member.client_id = stored.client_id
    member.client_host = stored.client_host
    member.session_timeout_ms = stored.session_timeout_ms
    member.rebalance_timeout_ms = stored.rebalance_timeout_ms
    member.assignment = stored.assignment
