"""Handing over before a stop: the controller is asked to move what this broker leads (ControlledShutdown).

Asked again, as Kafka does, while something remains or nobody answers: `controlled.shutdown.max.retries` times, every
`controlled.shutdown.retry.backoff.ms`; but once only while ZooKeeper is away, for then nothing can change. Then the
broker stops anyway, and what it leads waits for the controller to see it gone.
"""

import asyncio
import logging
from collections.abc import Callable

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId
from broker.config import BrokerConfig
from broker.metadata_view import MetadataView
from controller.commands import ControlledShutdown, ControlledShutdownResult
from controller.control_plane import ControllerUnreachable, ControlPlane
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)


class Handover:
    """One broker's way out."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        config: BrokerConfig,
        metadata: MetadataView,
        control_plane: ControlPlane,
        broker_epoch: Callable[[], BrokerEpoch],
        zk: ZooKeeper,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._metadata = metadata
        self._control_plane = control_plane
        self._broker_epoch = broker_epoch
        self._zk = zk

    async def run(self) -> bool:
        """Whether everything that another broker can lead is led by another."""
        if not self._config.controlled_shutdown_enable:
            return False
        retries = self._config.controlled_shutdown_max_retries
        for attempt in range(1, retries + 1):
            problem = await self._ask()
            if problem is None:
                log.info("broker %d: handed over what it led", self._broker_id)
                return True
            log.warning("broker %d: handing over, attempt %d of %d: %s", self._broker_id, attempt, retries, problem)
            if not self._zk.is_connected:
                break
            if attempt < retries:
                await asyncio.sleep(self._config.controlled_shutdown_retry_backoff_ms / 1000)
        log.warning("broker %d: stops without having handed over everything", self._broker_id)
        return False

    async def _ask(self) -> str | None:
        """What is in the way, None if nothing is."""
        controller = self._metadata.brokers.get(self._metadata.controller_id)
        if controller is None or controller.control_endpoint is None:
            return "no controller is known"
        request = ControlledShutdown(self._broker_id, self._broker_epoch())
        try:
            result: ControlledShutdownResult = await self._control_plane.call(
                controller.control_endpoint, request, timeout_ms=self._config.controller_socket_timeout_ms
            )
        except ControllerUnreachable as error:
            return f"controller {controller.broker_id} does not answer: {error}"
        if result.error_code is not ErrorCode.NONE:
            return f"controller {controller.broker_id} answers {result.error_code.name}"
        if result.remaining:
            return f"nobody else can lead {len(result.remaining)} partitions, {result.remaining[0]} among them"
        return None
