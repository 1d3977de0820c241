"""DescribeGroups and ListGroups: a group as others see it. Pure."""

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.states import GroupState
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.protocol.messages.list_groups import ListedGroup


def describe(group: Group) -> DescribedGroup:
    """What its members said and were assigned is shown while it is Stable: else it is about to change."""
    shown = group.protocol_name if group.state is GroupState.STABLE else None
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=b"" if shown is None else member.metadata(shown),
            member_assignment=b"" if shown is None else member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=shown or "",
        members=members,
    )


def describe_unknown(group_id: str) -> DescribedGroup:
    """A group that is not there is Dead, which is no error."""
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)


def list_entry(group: Group) -> ListedGroup:
    """One line of a list."""
    return ListedGroup(group.group_id, group.protocol_type or "", group.state)
