"""The finalized features of the cluster, as /feature tells them: what every feature-aware client asks for (KIP-584).

The controller keeps the znode; every broker watches it. The epoch is the znode's version, -1 while it is not known. No
feature can be finalized yet, so what stands there was written by another version, and is passed on as it is.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from barnabas.runtime.tasks import Supervisor
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import SessionLost
from zk_schema.payloads import FeatureStatus, FeatureZnode, VersionRange
from zk_schema.port import DataChanged, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)

NO_EPOCH: Final = -1
_NOTHING: Final[Mapping[str, VersionRange]] = MappingProxyType({})


class FinalizedFeatures:
    """See the module."""

    def __init__(self, zk: ZooKeeper, supervisor: Supervisor) -> None:
        self.epoch = NO_EPOCH
        self.features = _NOTHING
        self._zk = zk
        self._supervisor = supervisor
        self._changed = asyncio.Event()
        self._was_read = asyncio.Event()
        self._unlisten: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read them, and again whenever they change."""
        self._unlisten = self._zk.listen(self._on_event)
        await self._read()
        self._task = self._supervisor.spawn(self._follow(), name="finalized features")

    async def wait_for(self, epoch: int, *, timeout_ms: int) -> bool:
        """Wait until what is known here is at least of this epoch; False when the time is up first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                while self.epoch < epoch:
                    await self._was_read.wait()
        return self.epoch >= epoch

    def stop(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
        if self._task is not None:
            self._task.cancel()

    def _on_event(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, Resync) or event == DataChanged(paths.FEATURE):
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._read()

    async def _read(self) -> None:
        try:
            znode = await self._zk.get(paths.FEATURE, watch=True)
        except SessionLost:
            # The next session announces itself, and then it is read again.
            return
        if znode is None:
            self.epoch, self.features = NO_EPOCH, _NOTHING
            return
        try:
            read = FeatureZnode.decode(znode.data)
        except InvalidPayload as error:
            log.error("%s cannot be read, what was known before stands: %s", paths.FEATURE, error)
            return
        self.epoch = znode.stat.version
        self.features = read.features if read.status is FeatureStatus.ENABLED else _NOTHING
        # Who waits looks at the epoch; the next to wait, waits for the next reading.
        self._was_read.set()
        self._was_read = asyncio.Event()
