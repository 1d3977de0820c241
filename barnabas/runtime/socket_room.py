"""Which full sockets have room again: one epoll for all of a loop's connections, edge-triggered (epoll(7)).

A loop's own writers come and go with each answer that does not fit, at four system calls and a handle of uvloop's each
time. Here a socket is registered once, when it is full for the first time, and told of each time that it has room
again after the kernel has said that it is full.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Final

_ON_EDGES: Final = select.EPOLLOUT | select.EPOLLET


class SocketRoom:
    """Of the sockets of one loop."""

    __slots__ = ("_epoll", "_tell")

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._tell: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, tell: Callable[[], None]) -> None:
        """Call `tell` now that there may be room, and whenever there is some again, until `forget`. Raises OSError."""
        epoll = self._epoll
        if epoll is None:
            epoll = self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(epoll.fileno(), self._on_events)
        epoll.register(descriptor, _ON_EDGES)
        self._tell[descriptor] = tell

    def ask_again(self, descriptor: int) -> None:
        """Tell of one that is watched as if from now on: at once, if it has room. Raises OSError."""
        assert self._epoll is not None
        self._epoll.modify(descriptor, _ON_EDGES)

    def forget(self, descriptor: int) -> None:
        """Of one that is watched, before it is closed: its copies would keep it in the kernel's list."""
        epoll = self._epoll
        assert epoll is not None
        del self._tell[descriptor]
        epoll.unregister(descriptor)
        if not self._tell:
            self._epoll = None
            asyncio.get_running_loop().remove_reader(epoll.fileno())
            epoll.close()

    def _on_events(self) -> None:
        epoll = self._epoll
        if epoll is None:
            return
        for descriptor, _ in epoll.poll(0):
            tell = self._tell.get(descriptor)
            if tell is not None:
                tell()
