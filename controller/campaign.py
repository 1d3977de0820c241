"""The office of controller in ZooKeeper: who holds it, winning it, leaving it.

Whoever makes the ephemeral /controller holds the office. The winner raises /controller_epoch in the same multi, so that
no two controllers share an epoch, and the version of that znode after it is the fence of all that the winner writes.
What is left behind is removed by a multi with that fence too: a controller that was replaced must not remove its
successor's znode.
"""

import logging
from dataclasses import dataclass

from barnabas.protocol.ids import BrokerId, ControllerEpoch
from barnabas.runtime.clock import Clock
from controller.state import Term
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import (
    Check,
    Create,
    Delete,
    NodeExists,
    Op,
    OutcomeUnknown,
    Set,
    VersionMoved,
    WriteRefused,
    Written,
    Znode,
)
from zk_schema.payloads import ControllerEpochText, ControllerRegistration, FeatureStatus, FeatureZnode
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

NO_CONTROLLER = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who stands in /controller, and whether this broker's present session made it."""

    broker_id: BrokerId
    is_us: bool


class Campaign:
    """One broker's dealings with /controller and /controller_epoch."""

    def __init__(self, broker_id: BrokerId, zk: ZooKeeper, clock: Clock) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._clock = clock

    async def look(self) -> Holder | None:
        """Who holds the office; a change of that is announced from now on."""
        znode = await self._zk.get(paths.CONTROLLER, watch=True)
        if znode is None:
            return None
        is_us = znode.stat.ephemeral_owner == self._zk.session_id
        try:
            return Holder(ControllerRegistration.decode(znode.data).broker_id, is_us)
        except InvalidPayload as error:
            log.error("/controller cannot be read: %s", error)
            return Holder(NO_CONTROLLER, is_us)

    async def stand(self) -> Term | None:
        """Try to take the vacant office; None when another was faster.

        Raises:
            SessionLost: nobody can say; with a new session, look again.
            InvalidPayload: /controller_epoch holds no number. Guessing one could repeat an epoch.
        """
        epoch, version = await self._read_epoch()
        term = Term(self._broker_id, ControllerEpoch(epoch + 1), version + 1)
        registration = ControllerRegistration(self._broker_id, self._clock.wall_ms())
        try:
            results = await self._zk.write(
                Create(paths.CONTROLLER, registration.encode(), ephemeral=True),
                Set(paths.CONTROLLER_EPOCH, ControllerEpochText(term.epoch).encode(), version),
            )
        except (NodeExists, VersionMoved):
            return None
        except OutcomeUnknown:
            return term if await self._has_won(term) else None
        assert isinstance(results[-1], Written)
        assert results[-1].stat.version == term.epoch_version
        return term

    async def keep_features(self, term: Term) -> None:
        """Make /feature if the cluster has none, and switch it on where an older controller left it off (KIP-584).

        Switched on, it has the features that this version finalizes by itself, of which there are none.

        Raises:
            SessionLost: the term is over.
        """
        data = FeatureZnode(FeatureStatus.ENABLED).encode()
        while True:
            znode = await self._zk.get(paths.FEATURE)
            if znode is not None and not _is_off(znode):
                return
            operation: Op = Create(paths.FEATURE, data)
            if znode is not None:
                operation = Set(paths.FEATURE, data, znode.stat.version)
            try:
                await self._zk.write(Check(paths.CONTROLLER_EPOCH, term.epoch_version), operation)
            except OutcomeUnknown:
                continue
            except WriteRefused as error:
                # Somebody was faster, or this term is over already: its driver will find out.
                log.debug("controller %d epoch %d: /feature: %s", self._broker_id, term.epoch, error)
                return

    async def resign(self, term: Term) -> None:
        """Give the office up, unless another has it already. The session's end would do the same, later."""
        try:
            await self._zk.write(Check(paths.CONTROLLER_EPOCH, term.epoch_version), Delete(paths.CONTROLLER))
        except WriteRefused as error:
            log.debug("controller %d epoch %d: nothing to give up: %s", self._broker_id, term.epoch, error)

    async def vacate(self) -> None:
        """Remove what an earlier term of this session left in /controller."""
        epoch, version = await self._read_epoch()
        holder = await self.look()
        if holder is not None and holder.is_us:
            await self.resign(Term(self._broker_id, epoch, version))

    async def _read_epoch(self) -> tuple[ControllerEpoch, int]:
        """The last epoch and its znode's version; the znode is made if it is missing."""
        while True:
            znode = await self._zk.get(paths.CONTROLLER_EPOCH)
            if znode is not None:
                return ControllerEpochText.decode(znode.data).epoch, znode.stat.version
            try:
                await self._zk.write(Create(paths.CONTROLLER_EPOCH, ControllerEpochText(ControllerEpoch(0)).encode()))
            except (NodeExists, OutcomeUnknown) as error:
                log.debug("broker %d: /controller_epoch is read again: %s", self._broker_id, error)

    async def _has_won(self, term: Term) -> bool:
        """Whether an election with an unknown outcome was won: both znodes are as this session would have left them."""
        epoch, version = await self._read_epoch()
        holder = await self.look()
        return holder is not None and holder.is_us and (epoch, version) == (term.epoch, term.epoch_version)


def _is_off(znode: Znode) -> bool:
    try:
        return FeatureZnode.decode(znode.data).status is FeatureStatus.DISABLED
    except InvalidPayload as error:
        log.error("%s is left alone: %s", paths.FEATURE, error)
        return False
