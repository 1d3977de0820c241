"""Builds one broker from its ports and its configuration, and takes it down again.

Called by the process (`broker.main`) and by whoever simulates a cluster; nothing here knows which. The order of the
start is Kafka's: ZooKeeper, cluster id, broker id, logs, sockets (bound, not served), replicas, registration,
meta.properties, candidate for controller, and only then requests.
"""

import contextlib
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.network import Listener, Network
from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import Supervisor
from barnabas.storage.directories import LogDirectories, StorageSettings
from barnabas.storage.directory_loading import StorageStartError
from barnabas.storage.log_config import LogConfig
from barnabas.storage.maintenance import MaintenanceSettings
from broker.announcement import announce
from broker.arrival import arrive
from broker.boot_state import BootState
from broker.config import BrokerConfig
from broker.config_changes import ConfigChanges
from broker.config_effects import controller_settings, let_changes_act
from broker.config_keys.key import ConfigError
from broker.connection import ClientConnection
from broker.control_service import ControlService
from broker.controlled_shutdown import Handover
from broker.coordination import Coordination
from broker.directory_reports import report_directory_failure
from broker.dynamic_config import DynamicConfig, read_layers
from broker.features import FinalizedFeatures
from broker.fetch_sessions import FetchSessions
from broker.fetching import make_fetchers, replication_quotas
from broker.handlers import ALL
from broker.isr_channel import AlterPartitionChannel
from broker.log_cleaning import clean_logs
from broker.log_scrubbing import LogScrubbing
from broker.membership import Membership, MembershipRefused
from broker.metadata_view import MetadataView
from broker.metrics import BrokerMetrics, Families
from broker.producer_ids import ProducerIds
from broker.registry import Registry
from broker.services import Services
from broker.topic_configs import TopicConfigs, resolve_topic
from broker.transaction_links import link_transactions
from controller.control_plane import ControlListener, ControlPlane
from controller.driver import Controller
from replication.log_moves import LogMoves
from replication.ports import ReplicationPorts
from replication.replicas import Replicas
from zk_schema import paths
from zk_schema.ops import ZooKeeperError
from zk_schema.port import ZooKeeper

if TYPE_CHECKING:
    from broker.metrics_server import MetricsServer

log = logging.getLogger(__name__)

_LISTEN_BACKLOG_HINT: Final = "another process listens there, or the address is not this machine's"


class StartFailed(Exception):
    """The broker cannot start; the text says why and what to do."""


class OpenNetwork(Protocol):
    """Makes the network of one broker."""

    def __call__(self, config: BrokerConfig, offload: Offload, supervisor: Supervisor) -> Network: ...


class OpenZooKeeper(Protocol):
    """Opens a session, or raises ZooKeeperError after `zookeeper.connection.timeout.ms`."""

    async def __call__(self, config: BrokerConfig) -> ZooKeeper: ...


class OpenControlPlane(Protocol):
    """Makes one broker's way to the control plane."""

    def __call__(self, config: BrokerConfig, supervisor: Supervisor) -> ControlPlane: ...


@dataclass(slots=True)
class Ports:
    """The world, as one broker sees it."""

    clock: Clock
    disk: Disk
    offload: Offload
    supervisor: Supervisor
    random: random.Random
    open_network: OpenNetwork
    open_zookeeper: OpenZooKeeper
    open_control_plane: OpenControlPlane
    boot_id: str = ""
    """Which start of the machine this is; empty where nobody knows."""


class Broker:
    """A running broker. `stop` takes it down in order; what it acknowledged is on disk then."""

    def __init__(
        self,
        services: Services,
        *,
        network: Network,
        control_plane: ControlPlane,
        control: ControlListener,
        membership: Membership,
        handover: Handover,
        metrics_server: "MetricsServer | None",
        chores: tuple[Callable[[], object], ...],
    ) -> None:
        self.services = services
        self._network = network
        self._control_plane = control_plane
        self._control = control
        self._membership = membership
        self._handover = handover
        self._metrics_server = metrics_server
        self._chores = chores

    @property
    def broker_id(self) -> BrokerId:
        return self.services.broker_id

    async def stop(self) -> None:
        """Hand over, leave office, serve no more, flush and close the logs, and end the session."""
        await self._handover.run()
        self._network.close()
        self._membership.stop()
        self.services.features.stop()
        await self.services.controller.stop()
        await self._control.stop()
        await self._control_plane.close()
        for stop in self._chores:
            stop()
        await self.services.replicas.close()
        await self.services.log_directories.close()
        if self._metrics_server is not None:
            await self._metrics_server.close()
        await self.services.zk.close()


async def serve(ports: Ports, config: BrokerConfig) -> Broker:
    """Start a broker; returns when it takes requests.

    Raises:
        StartFailed: nothing is left running.
    """
    async with contextlib.AsyncExitStack() as undo:
        broker = await _Start(ports, config, undo).run()
        undo.pop_all()
        return broker


class _Start:
    """The steps of one start; each registers with `undo` what takes it back if a later one fails."""

    def __init__(self, ports: Ports, config: BrokerConfig, undo: contextlib.AsyncExitStack) -> None:
        self._ports = ports
        self._dynamic_config = DynamicConfig(config)
        self._undo = undo
        self._replicas: Replicas | None = None
        self._log_directories_made: LogDirectories | None = None
        self._report_directory_failure: Callable[[], object] | None = None
        self._chores: list[Callable[[], object]] = []

    @property
    def _config(self) -> BrokerConfig:
        return self._dynamic_config.current

    async def run(self) -> Broker:
        ports, config = self._ports, self._config
        zk = await self._open_zookeeper()
        membership = Membership(zk, config, clock=ports.clock, supervisor=ports.supervisor)
        log_directories = self._log_directories()
        try:
            cluster_id = await membership.cluster_id(ports.random)
            self._undo.push_async_callback(log_directories.close)
            broker_id = await membership.broker_id(log_directories.acquire(cluster_id))
            await self._read_layers(zk, broker_id, log_directories)
            await log_directories.load(await self._topic_log_configs(zk))
        except (StorageStartError, MembershipRefused, ZooKeeperError) as error:
            raise StartFailed(str(error)) from error
        network = self._open_network(config)
        self._undo.callback(network.close)
        listeners = await self._listen(network)
        control_plane = ports.open_control_plane(config, ports.supervisor)
        self._undo.push_async_callback(control_plane.close)
        metadata = MetadataView()
        channel = self._isr_channel(broker_id, membership, metadata, control_plane)
        self._replicas = self._make_replicas(broker_id, metadata, log_directories, channel, network)
        services = self._services(cluster_id, zk, metadata, self._replicas, control_plane)
        let_changes_act(services, network, ports.offload, ports.supervisor.spawn)
        link_transactions(services, network, ports.supervisor.spawn)
        self._undo.push_async_callback(services.replicas.close)
        control = await self._serve_control(services, membership, control_plane)
        metrics_server = await self._serve_metrics(services, network)
        boot = BootState(log_directories, services.metadata, broker_id, ports.boot_id)
        boot.recall()
        ports_bound = {name: listener.port for name, listener in listeners.items()}
        try:
            await membership.join(broker_id, ports_bound, config.listeners.reachable(control.endpoint), boot)
        except (MembershipRefused, ZooKeeperError) as error:
            raise StartFailed(str(error)) from error
        self._undo.callback(membership.stop)
        self._report_directory_failure = lambda: ports.supervisor.spawn(
            report_directory_failure(zk, broker_id), name="report of a failed log directory"
        )
        log_directories.write_meta_properties(broker_id, cluster_id)
        self._begin_chores(services, LogScrubbing(services, ports.disk, network, control_plane, membership))
        self._undo.push_async_callback(services.controller.stop)
        await services.controller.start()
        self._undo.callback(services.features.stop)
        await services.features.start()
        await self._arrive(services)
        # Only now: before a controller has told all that there is, nothing would be in doubt.
        self._begin_chore(boot.run(), "doubt about the ends of logs")
        for name, listener in listeners.items():
            listener.start(_accept(services, name))
        announce(broker_id, listeners)
        return Broker(
            services,
            network=network,
            control_plane=control_plane,
            control=control,
            membership=membership,
            handover=Handover(
                broker_id,
                config=config,
                metadata=services.metadata,
                control_plane=control_plane,
                broker_epoch=lambda: membership.broker_epoch,
                zk=zk,
            ),
            metrics_server=metrics_server,
            chores=tuple(self._chores),
        )

    def _begin_chores(self, services: Services, scrubbing: LogScrubbing) -> None:
        self._begin_chore(services.log_directories.run_maintenance(), "log maintenance")
        self._begin_chore(services.replicas.check_lags(), "in-sync sets")
        self._begin_chore(services.config_changes.run(), "settings")
        self._begin_chore(clean_logs(services, self._ports.disk), "log cleaner")
        self._begin_chore(scrubbing.run(), "log scrubber")

    def _begin_chore(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something for as long as the broker does."""
        task = self._ports.supervisor.spawn(work, name=name)
        self._undo.callback(task.cancel)
        self._chores.append(task.cancel)

    def _isr_channel(
        self, broker_id: BrokerId, membership: Membership, metadata: MetadataView, control_plane: ControlPlane
    ) -> AlterPartitionChannel:
        channel = AlterPartitionChannel(
            broker_id,
            broker_epoch=lambda: membership.broker_epoch,
            metadata=metadata,
            control_plane=control_plane,
            clock=self._ports.clock,
            spawn=self._ports.supervisor.spawn,
        )
        self._undo.callback(channel.stop)
        self._chores.append(channel.stop)
        return channel

    async def _arrive(self, services: Services) -> None:
        try:
            await arrive(
                services.broker_id,
                zk=services.zk,
                metadata=services.metadata,
                held=[each.topic_partition for each in services.log_directories.logs()],
                session_timeout_ms=self._config.zookeeper_session_timeout_ms,
                clock=self._ports.clock,
            )
        except ZooKeeperError as error:
            raise StartFailed(str(error)) from error

    async def _read_layers(self, zk: ZooKeeper, broker_id: BrokerId, log_directories: LogDirectories) -> None:
        of_all_brokers, of_this_broker = await read_layers(zk, broker_id)
        self._dynamic_config.apply(of_all_brokers=of_all_brokers, of_this_broker=of_this_broker)
        log_directories.default_config = resolve_topic(self._config, {})[0].log

    async def _topic_log_configs(self, zk: ZooKeeper) -> dict[str, LogConfig]:
        """What topics set for themselves, so that recovery reads their logs as they were written."""
        topics = await zk.children(paths.BROKER_TOPICS) or []
        settings = await TopicConfigs(self._dynamic_config, zk).settings_of(topics)
        return {topic: each.log for topic, each in settings.items()}

    def _on_directory_failure(self, path: str, error: OSError) -> None:
        assert self._log_directories_made is not None
        if self._replicas is not None:
            self._replicas.on_directory_failure(path)
        directories = self._log_directories_made
        if len(directories.offline_directories()) == len(directories.directories):
            self._ports.supervisor.fail("the last log directory", error)
        elif self._report_directory_failure is not None:
            self._report_directory_failure()

    async def _open_zookeeper(self) -> ZooKeeper:
        try:
            zk = await self._ports.open_zookeeper(self._config)
        except ZooKeeperError as error:
            raise StartFailed(f"zookeeper.connect={self._config.zookeeper_connect}: {error}") from error
        except ConfigError as error:
            raise StartFailed(str(error)) from error
        self._undo.push_async_callback(zk.close)
        return zk

    def _log_directories(self) -> LogDirectories:
        config, ports = self._config, self._ports
        defaults, _ = resolve_topic(config, {})
        directories = LogDirectories(
            config.log_dirs,
            disk=ports.disk,
            clock=ports.clock,
            offload=ports.offload,
            random=ports.random,
            default_config=defaults.log,
            on_failure=self._on_directory_failure,
            settings=StorageSettings(
                producer_expiration_ms=config.transactional_id_expiration_ms,
                recovery_threads=config.num_recovery_threads_per_data_dir,
                maintenance=MaintenanceSettings(
                    retention_check_interval_ms=config.log_retention_check_interval_ms,
                    recovery_point_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
                    start_offset_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
                    high_watermark_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
                ),
            ),
        )
        self._log_directories_made = directories
        return directories

    def _open_network(self, static: BrokerConfig) -> Network:
        ports = self._ports
        try:
            return ports.open_network(self._config, ports.offload, ports.supervisor)
        except ConfigError as error:
            if self._config.layers.dynamic(error.key) is None:
                raise StartFailed(str(error)) from error
            log.warning("set in ZooKeeper and left out: %s", error)
        try:
            return ports.open_network(static, ports.offload, ports.supervisor)
        except ConfigError as error:
            raise StartFailed(str(error)) from error

    async def _listen(self, network: Network) -> dict[str, Listener]:
        listeners: dict[str, Listener] = {}
        for bound in self._config.listeners.bound:
            try:
                listeners[bound.name] = await network.listen(bound.host, bound.port)
            except OSError as error:
                raise StartFailed(f"listeners={bound}: {error}; {_LISTEN_BACKLOG_HINT}") from error
        return listeners

    def _services(
        self,
        cluster_id: str,
        zk: ZooKeeper,
        metadata: MetadataView,
        replicas: Replicas,
        control_plane: ControlPlane,
    ) -> Services:
        ports, config = self._ports, self._config
        broker_id = replicas.broker_id
        metrics = BrokerMetrics(ports.clock)
        controller = Controller(
            broker_id,
            zk=zk,
            clock=ports.clock,
            supervisor=ports.supervisor,
            open_channel=control_plane.open_channel,
            settings=controller_settings(config),
        )
        return Services(
            broker_id=broker_id,
            cluster_id=cluster_id,
            dynamic_config=self._dynamic_config,
            config_changes=ConfigChanges(broker_id, zk, self._dynamic_config, replicas),
            clock=ports.clock,
            random=ports.random,
            offload=ports.offload,
            zk=zk,
            metadata=metadata,
            replicas=replicas,
            log_directories=replicas.log_directories,
            controller=controller,
            producer_ids=ProducerIds(broker_id, zk),
            features=FinalizedFeatures(zk, ports.supervisor),
            fetch_sessions=FetchSessions(
                max_slots=config.max_incremental_fetch_session_cache_slots, clock=ports.clock, rng=ports.random
            ),
            metrics=metrics,
            registry=Registry(ALL),
            coordination=Coordination(
                replicas,
                settings=config.coordinators,
                metadata=metadata,
                zk=zk,
                clock=ports.clock,
                offload=ports.offload,
                rng=ports.random,
                spawn=ports.supervisor.spawn,
            ),
        )

    def _make_replicas(
        self,
        broker_id: BrokerId,
        metadata: MetadataView,
        log_directories: LogDirectories,
        channel: AlterPartitionChannel,
        network: Network,
    ) -> Replicas:
        config, clock, spawn = self._config, self._ports.clock, self._ports.supervisor.spawn
        replication = ReplicationPorts(
            broker_id=broker_id,
            clock=clock,
            spawn=spawn,
            log_directories=log_directories,
            isr_channel=channel,
            broker_epoch_of=metadata.broker_epoch_of,
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
            holds_below_min_isr=config.last_replica_defence,
            quotas=replication_quotas(config),
        )
        fetchers = make_fetchers(
            config,
            broker_id,
            metadata=metadata,
            network=network,
            clock=clock,
            spawn=spawn,
            quota=replication.quotas.follower,
        )
        moves = LogMoves(replication, self._ports.offload, at_once=config.replica_moves_at_once)
        return Replicas(replication, fetchers, moves)

    async def _serve_control(
        self, services: Services, membership: Membership, control_plane: ControlPlane
    ) -> ControlListener:
        service = ControlService(
            metadata=services.metadata,
            metrics=services.metrics,
            replicas=services.replicas,
            log_directories=services.log_directories,
            topic_configs=TopicConfigs(self._dynamic_config, services.zk),
            broker_epoch=lambda: membership.broker_epoch,
            registered=membership.registered.wait,
            coordination=services.coordination,
            clock=self._ports.clock,
        )
        try:
            control = await control_plane.serve(
                service, services.controller, self._config.control_host, self._config.control_port
            )
        except OSError as error:
            raise StartFailed(f"barnabas.control.listener: {error}") from error
        self._undo.push_async_callback(control.stop)
        return control

    async def _serve_metrics(self, services: Services, network: Network) -> "MetricsServer | None":
        def families() -> Families:
            from broker.metric_families import broker_families  # noqa: PLC0415 - see broker.metrics

            return broker_families(services, network.traffic)

        services.metrics.add_source(families)
        port = self._config.metrics_port
        if port is None:
            return None
        # Before the first request comes, so that the first to ask for metrics keeps nobody waiting.
        from broker.metrics_server import MetricsServer  # noqa: PLC0415

        server = MetricsServer(services.metrics)
        try:
            await server.start(port)
        except OSError as error:
            raise StartFailed(f"barnabas.metrics.port={port}: {error}") from error
        self._undo.push_async_callback(server.close)
        return server


def _accept(services: Services, listener_name: str) -> Callable[..., ClientConnection]:
    return lambda connection: ClientConnection(connection, services, listener_name=listener_name)
