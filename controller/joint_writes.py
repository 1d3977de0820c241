"""Writes of one batch that go to ZooKeeper as one multi.  [P]

A multi costs ZooKeeper a record in its log and the controller a round trip, however much is in it, and only so many are
under way at a time (zookeeper.max.in.flight.requests). Partitions come by the thousand, so their writes are joined. All
of a joint write is done or nothing: where one of them is refused, but for the fence that they share, the others have to
be tried again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from controller.actions import Write
from zk_schema.ops import Op, OpResult, most_bytes

_MOST_OPERATIONS: Final = 125
"""Beside the fence."""
_MOST_BYTES: Final = 128 * 1024
"""A server takes requests of 1 MB at most (jute.maxbuffer), and others wait for a long one."""


def groups(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """The writes in their order, those that are to go together in one list."""
    group: list[Write] = []
    operations = size_bytes = 0
    for write in writes:
        own_operations, own_bytes = len(write.operations) - 1, sum(map(most_bytes, write.operations))
        if group and (operations + own_operations > _MOST_OPERATIONS or size_bytes + own_bytes > _MOST_BYTES):
            yield group
            group, operations, size_bytes = [], 0, 0
        group.append(write)
        operations += own_operations
        size_bytes += own_bytes
    if group:
        yield group


def joined(group: Sequence[Write]) -> tuple[Op, ...]:
    """The operations of all, behind the fence of the first, which is that of each."""
    fence = group[0].operations[0]
    assert all(write.operations[0] == fence for write in group)
    return (fence, *(operation for write in group for operation in write.operations[1:]))


def parted(group: Sequence[Write], results: Sequence[OpResult]) -> list[tuple[OpResult, ...]]:
    """What each would have had of its own multi."""
    return [(results[0], *results[begin:end]) for begin, end in _places(group)]


def apart(group: Sequence[Write], refused: int) -> list[Sequence[Write]]:
    """What is before the write that the operation of a joint write belongs to, that write alone, and what is behind."""
    place = next(place for place, (_, end) in enumerate(_places(group)) if refused < end)
    parts = (group[:place], group[place : place + 1], group[place + 1 :])
    return [part for part in parts if part]


def _places(group: Sequence[Write]) -> Iterator[tuple[int, int]]:
    """Where the operations of each begin and end in the joint write, which begins with the fence."""
    end = 1
    for write in group:
        begin, end = end, end + len(write.operations) - 1
        yield begin, end
