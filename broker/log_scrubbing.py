"""The scrubber of a broker and what mends what it finds: made from the configuration, and following it.

A leader that resigns asks the controller for it (AlterPartition with `resigns`), once; who is refused is asked again
when the mender tries again.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.runtime.network import Network
from barnabas.storage.scrubber import Scrubber, ScrubSettings
from broker.config import BrokerConfig
from broker.fetching import reach_brokers
from broker.membership import Membership
from broker.metrics import Families
from broker.services import Services
from controller.commands import AlterPartition, AlterPartitionItem
from controller.control_plane import ControllerUnreachable, ControlPlane
from replication.mending import Mender, MenderPorts
from replication.partition import Partition

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 5_000


class LogScrubbing:
    """See the module. What was known to be damaged is so again when this is made; `run` is its task."""

    def __init__(
        self,
        services: Services,
        disk: Disk,
        network: Network,
        control_plane: ControlPlane,
        membership: Membership,
    ) -> None:
        self._services = services
        self._control_plane = control_plane
        self._membership = membership
        config = services.dynamic_config.current
        reach = reach_brokers(config, metadata=services.metadata, network=network)
        self.scrubber = Scrubber(
            services.log_directories,
            disk=disk,
            clock=services.clock,
            offload=services.offload,
            settings=scrub_settings(config),
            on_damage=lambda member: self.mender.on_damage(member),  # noqa: PLW0108 - it is made below
        )
        self.mender = Mender(
            services.replicas,
            self.scrubber,
            MenderPorts(
                clock=services.clock,
                disk=disk,
                offload=services.offload,
                endpoint_of=reach.endpoint_of,
                connect=reach.connect,
                resign=self._resign,
                timeout_ms=config.replica_socket_timeout_ms,
            ),
        )
        self.scrubber.recall()
        services.dynamic_config.listen(lambda _, new: self._configure(new))
        services.metrics.add_source(self._families)

    def _families(self) -> Families:
        from broker.metric_scrubbing import scrubbing_families  # noqa: PLC0415 - see broker.metrics

        return scrubbing_families(self.scrubber, self.mender)

    async def run(self) -> None:
        """Scrub and mend until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.scrubber.run())
            group.create_task(self.mender.run())

    def _configure(self, config: BrokerConfig) -> None:
        self.scrubber.settings = scrub_settings(config)

    async def _resign(self, partitions: Sequence[Partition]) -> Sequence[TopicPartition]:
        """Ask the controller to let others lead; which of these others lead now."""
        metadata = self._services.metadata
        controller = metadata.brokers.get(metadata.controller_id)
        items = [
            AlterPartitionItem(
                *partition.topic_partition,
                leadership.leader_epoch,
                leadership.isr.committed,
                leadership.isr.zk_version,
                resigns=True,
            )
            for partition in partitions
            if (leadership := partition.leadership) is not None
        ]
        if controller is None or controller.control_endpoint is None or not items:
            return ()
        request = AlterPartition(self._services.broker_id, self._membership.broker_epoch, items)
        try:
            result = await self._control_plane.call(controller.control_endpoint, request, timeout_ms=_TIMEOUT_MS)
        except ControllerUnreachable as error:
            log.info("the controller cannot be asked for other leaders of %d partitions: %s", len(items), error)
            return ()
        for at, outcome in result.partitions.items():
            if outcome.error_code is not ErrorCode.NONE:
                log.warning("%s: damaged, and led on by this broker: %s", at, outcome.error_code.name)
        return [at for at, outcome in result.partitions.items() if outcome.error_code is ErrorCode.NONE]


def scrub_settings(config: BrokerConfig) -> ScrubSettings:
    """What the scrubber goes by."""
    rate, interval_ms = (config.values[f"barnabas.scrub.{name}"] for name in ("bytes.per.second", "interval.ms"))
    assert isinstance(rate, int)
    assert isinstance(interval_ms, int)
    return ScrubSettings(rate, interval_ms)
