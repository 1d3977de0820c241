"""DescribeCluster, version 0: id, controller and brokers of the cluster, by any broker (KIP-700; beyond Kafka 2.7).

The brokers are those that have the listener that the request came in by, and the operations allowed on the cluster,
where they are asked for, are all, as in Metadata.
"""

from typing import Final

from barnabas.protocol.messages import describe_cluster as messages
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED
from broker.registry import Handler
from broker.request_context import RequestContext


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Answer from what the controller told."""
    broker = context.broker
    live = broker.metadata.brokers
    brokers = [
        DescribeClusterBroker(broker_id, endpoint.host, endpoint.port, live[broker_id].rack)
        for broker_id, endpoint in broker.metadata.brokers_on(context.listener_name).items()
    ]
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=brokers,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=0)
