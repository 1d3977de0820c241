"""Making the topics of the coordinators when they are needed first: FindCoordinator, and Metadata where it may."""

import logging

from barnabas.protocol.error_code import ErrorCode
from broker.config import BrokerConfig
from broker.internal_topics import CONSUMER_OFFSETS
from broker.services import Services
from broker.topic_creation import NewTopic, plan_topic, write_topic
from controller.placement import RackMode
from controller.topics import TopicRefused
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """What the broker's configuration makes of an internal topic."""
    settings = config.coordinators
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            num_partitions=settings.offsets_topic_num_partitions,
            replication_factor=settings.offsets_topic_replication_factor,
            config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return NewTopic(
        name,
        num_partitions=settings.transaction_state_log_num_partitions,
        replication_factor=settings.transaction_state_log_replication_factor,
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


async def create_internal_topic(broker: Services, name: str) -> ErrorCode:
    """Make it; what Metadata answers for it then. Somebody else may do the same at this moment."""
    topic = internal_topic(name, broker.config)
    try:
        assignment = await plan_topic(broker, topic, rack_mode=RackMode.SAFE)
        await write_topic(broker, name, assignment, topic.config)
    except TopicRefused as error:
        if error.error is ErrorCode.TOPIC_ALREADY_EXISTS:
            return ErrorCode.LEADER_NOT_AVAILABLE
        log.error("topic %s: not created: %s", name, error.message)
        return error.error
    except ZooKeeperError as error:
        log.warning("topic %s: not created: %s", name, error)
    return ErrorCode.LEADER_NOT_AVAILABLE
