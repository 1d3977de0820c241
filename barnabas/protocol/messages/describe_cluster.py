"""DescribeCluster (API key 60): the brokers, the controller and the id of the cluster (KIP-700).

Clients and tools send it to any broker. Kafka has it since 2.8.

Version 0 is flexible.
Version 1 adds the type of the endpoints, brokers or controllers (KIP-919).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 1), flexible=0)
class DescribeClusterRequest:
    """`endpoint_type` 1 asks for brokers, 2 for controllers."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: I8 = field(default=1, since=1)


@struct
class DescribeClusterBroker:
    """A live broker, at the listener that the request came in by."""

    broker_id: I32 = 0
    host: Str = ""
    port: I32 = 0
    rack: NullableStr = None


@message(versions=(0, 1), flexible=0)
class DescribeClusterResponse:
    """The cluster; `controller_id` is -1 while none is known."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = None
    endpoint_type: I8 = field(default=1, since=1)
    cluster_id: Str = ""
    controller_id: I32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: I32 = -(2**31)


API: Final = Api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse)
