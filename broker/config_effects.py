"""What changes in a running broker when its configuration does.

Each part that keeps a value is told here; who asks `DynamicConfig.current` each time needs no telling. Topics follow
their broker's settings in `broker.config_changes`.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.runtime.network import Network
from barnabas.runtime.offload import Offload
from broker.config import BrokerConfig
from broker.config_keys import DYNAMIC_ONLY_KEYS
from broker.config_keys.key import ConfigError
from broker.config_keys.replication import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE
from broker.connection_limits import connection_limits
from broker.dynamic_config import DynamicConfig
from broker.services import Services
from broker.topic_configs import resolve_topic
from controller.driver import Controller
from controller.office import Settings
from replication.quota import ReplicationQuota, ReplicationQuotas
from replication.replicas import Replicas

log = logging.getLogger(__name__)


def controller_settings(config: BrokerConfig) -> Settings:
    """What the controller decides by."""
    return Settings(
        inter_broker_listener_name=config.listeners.inter_broker_name,
        delete_topic_enable=config.delete_topic_enable,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        min_insync_replicas=config.min_insync_replicas,
        last_replica_defence=config.last_replica_defence,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
        leader_imbalance_check_interval_ms=1000 * config.leader_imbalance_check_interval_seconds,
    )


def let_changes_act(services: Services, network: Network, offload: Offload, spawn: Callable[..., Any]) -> None:
    """Tell each part of a broker what changes."""
    let_replicas_follow(services.dynamic_config, services.replicas)
    let_controller_follow(services.dynamic_config, services.controller)
    let_network_follow(services.dynamic_config, network, offload=offload, spawn=spawn)


def let_replicas_follow(dynamic_config: DynamicConfig, replicas: Replicas) -> None:
    """Bound replication as is set now, and whenever that changes; likewise how many fetch."""

    def on_change(old: BrokerConfig, new: BrokerConfig) -> None:
        bound_replication(replicas.quotas, new)
        replicas.log_directories.default_config = resolve_topic(new, {})[0].log
        if new.num_replica_fetchers != old.num_replica_fetchers:
            replicas.change_fetchers(new.num_replica_fetchers)

    bound_replication(replicas.quotas, dynamic_config.current)
    dynamic_config.listen(on_change)


def let_controller_follow(dynamic_config: DynamicConfig, controller: Controller) -> None:
    """Have the controller decide by what is set."""
    dynamic_config.listen(lambda _, new: controller.change_settings(controller_settings(new)))


def let_network_follow(
    dynamic_config: DynamicConfig,
    network: Network,
    *,
    offload: Offload,
    spawn: Callable[..., object],
) -> None:
    """Have connections be limited as is set."""

    async def limit() -> None:
        wanted = dynamic_config.current
        try:
            limits = await offload.thread("names of hosts", connection_limits, wanted)
        except ConfigError as error:
            log.warning("connections are limited as before: %s", error)
            return
        # Another change may have overtaken this one meanwhile.
        if limit_of(wanted) == limit_of(dynamic_config.current):
            network.limit(limits)

    def limit_of(config: BrokerConfig) -> tuple[object, ...]:
        return config.max_connections, config.max_connections_per_ip, config.max_connections_per_ip_overrides

    def on_change(old: BrokerConfig, new: BrokerConfig) -> None:
        if limit_of(old) != limit_of(new):
            work: Coroutine[Any, Any, None] = limit()
            spawn(work, name="limits of connections")

    dynamic_config.listen(on_change)


def bound_replication(quotas: ReplicationQuotas, config: BrokerConfig) -> None:
    """Bound replication as ZooKeeper says, which alone can."""

    def bound(name: str, quota: ReplicationQuota) -> None:
        text = config.layers.dynamic(name)
        wanted = None if text is None else DYNAMIC_ONLY_KEYS[name].parse(text)
        assert wanted is None or isinstance(wanted, int)
        quota.bytes_per_second = wanted

    bound(LEADER_RATE, quotas.leader)
    bound(FOLLOWER_RATE, quotas.follower)
    bound(MOVE_RATE, quotas.moves)
