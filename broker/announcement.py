"""What a broker says when it takes requests."""

import logging
from collections.abc import Mapping

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.network import Listener

log = logging.getLogger(__name__)


def announce(broker_id: BrokerId, listeners: Mapping[str, Listener]) -> None:
    """The lines that tools written for Kafka wait for."""
    for name, listener in listeners.items():
        log.info("listener %s accepts connections at port %d", name, listener.port)
    log.info("[KafkaServer id=%d] started (kafka.server.KafkaServer)", broker_id)
    log.info("Kafka Server started (kafka.server.KafkaRaftServer)")
    log.info("[BrokerLifecycleManager id=%d] Transitioning from RECOVERY to RUNNING.", broker_id)
