"""What ZooKeeper says of a local cluster: who is registered, who is the controller.

Each question opens a session of its own on an event loop of its own, for callers that have none.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError
from zk_schema.paths import BROKER_IDS, CONTROLLER
from zk_schema.payloads import ControllerRegistration
from zk_schema.session import KazooSession

_SESSION_TIMEOUT_MS: Final = 6_000
_LOOK_S: Final = 0.2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Ids of the registered brokers, sorted; the controller's id, None while there is none."""

    registered: tuple[int, ...]
    controller: int | None


def read_view(connect: str, *, timeout_s: float) -> ClusterView | None:
    """The view now; None where ZooKeeper does not answer in time."""

    async def read(session: KazooSession) -> ClusterView:
        return await _read(session)

    return asyncio.run(_with_session(connect, timeout_s, read))


def wait_for_members(
    connect: str, broker_ids: Iterable[int], *, timeout_s: float, give_up: Callable[[], bool]
) -> ClusterView | None:
    """The first view in which all of these are registered and there is a controller.

    None when that has not come in time, or `give_up`, asked now and then, says so.
    """
    wanted = set(broker_ids)

    async def wait(session: KazooSession) -> ClusterView | None:
        changed = asyncio.Event()
        session.listen(lambda _: changed.set())
        while True:
            changed.clear()
            view = await _read(session, watch=True)
            if wanted <= set(view.registered) and view.controller is not None:
                return view
            while not changed.is_set():
                if give_up():
                    return None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await changed.wait()

    return asyncio.run(_with_session(connect, timeout_s, wait))


async def _read(session: KazooSession, *, watch: bool = False) -> ClusterView:
    names = await session.children(BROKER_IDS, watch=watch) or []
    znode = await session.get(CONTROLLER, watch=watch)
    controller: int | None = None
    if znode is not None:
        with contextlib.suppress(InvalidPayload):
            controller = ControllerRegistration.decode(znode.data).broker_id
    return ClusterView(tuple(sorted(int(name) for name in names if name.isdecimal())), controller)


async def _with_session(
    connect: str, timeout_s: float, ask: Callable[[KazooSession], Coroutine[Any, Any, T]]
) -> T | None:
    session = KazooSession(connect, session_timeout_ms=_SESSION_TIMEOUT_MS)
    try:
        async with asyncio.timeout(timeout_s):
            await session.open(timeout_ms=int(timeout_s * 1000))
            return await ask(session)
    except (TimeoutError, ZooKeeperError):
        return None
    finally:
        await session.close()
