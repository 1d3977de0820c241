"""Which sockets are ready, by one poll(2).

kazoo asks some five times a request, and by itself makes, fills and closes an epoll for each question. No limit on the
number of a descriptor, as select(2) has.
"""

import select
from collections.abc import Sequence
from typing import Protocol, TypeVar


class HasDescriptor(Protocol):
    """A socket."""

    def fileno(self) -> int:
        """Its descriptor; -1 once it is closed."""


S = TypeVar("S", bound=HasDescriptor)


def await_ready(readable: Sequence[S], writable: Sequence[S], timeout_s: float | None) -> tuple[list[S], list[S]]:
    """Those that can be read or have ended, and those that can be written or have failed; none when the time is up.

    Raises:
        ValueError: one of them is closed.
    """
    poll = select.poll()
    masks: dict[int, int] = {}
    for sockets, mask in ((readable, select.POLLIN), (writable, select.POLLOUT)):
        for each in sockets:
            descriptor = each.fileno()
            masks[descriptor] = masks.get(descriptor, 0) | mask
    for descriptor, mask in masks.items():
        poll.register(descriptor, mask)
    found = dict(poll.poll(None if timeout_s is None else timeout_s * 1000))
    return (
        [each for each in readable if found.get(each.fileno(), 0) & ~select.POLLOUT],
        [each for each in writable if found.get(each.fileno(), 0) & ~select.POLLIN],
    )
