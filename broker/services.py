"""What handlers may use: the collaborators of one broker."""

import random
from dataclasses import dataclass, field

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.storage.directories import LogDirectories
from broker.config import BrokerConfig
from broker.config_changes import ConfigChanges
from broker.coordination import Coordination
from broker.down_conversion import Conversions
from broker.dynamic_config import DynamicConfig
from broker.features import FinalizedFeatures
from broker.fetch_sessions import FetchSessions
from broker.metadata_view import MetadataView
from broker.metrics import BrokerMetrics
from broker.producer_ids import ProducerIds
from broker.registry import Registry
from controller.driver import Controller
from replication.replicas import Replicas
from zk_schema.port import ZooKeeper


@dataclass(slots=True)
class Services:
    """One broker's parts. Nothing here is shared with another broker of the process."""

    broker_id: BrokerId
    cluster_id: str
    dynamic_config: DynamicConfig
    config_changes: ConfigChanges
    clock: Clock
    random: random.Random
    offload: Offload
    zk: ZooKeeper
    metadata: MetadataView
    replicas: Replicas
    log_directories: LogDirectories
    controller: Controller
    producer_ids: ProducerIds
    features: FinalizedFeatures
    fetch_sessions: FetchSessions
    metrics: BrokerMetrics
    registry: Registry
    coordination: Coordination
    conversions: Conversions = field(default_factory=Conversions)

    @property
    def config(self) -> BrokerConfig:
        """The configuration as of now."""
        return self.dynamic_config.current
