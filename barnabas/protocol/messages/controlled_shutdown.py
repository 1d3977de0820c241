"""ControlledShutdown (API key 7): asks that a broker's leaderships move away before it stops.

The broker that stops sends it to the controller. The request header of version 0 has no client id.

Version 1 has the usual request header.
Version 2 adds the broker epoch (KIP-380).
Version 3 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 3), flexible=3)
class ControlledShutdownRequest:
    """The broker that wants to stop."""

    broker_id: I32 = 0
    broker_epoch: I64 = field(default=-1, since=2, ignorable=True)


@struct
class RemainingPartition:
    """A partition that still has its leader on the broker."""

    topic_name: Str = ""
    partition_index: I32 = 0


@message(versions=(0, 3), flexible=3)
class ControlledShutdownResponse:
    """The partitions that the broker still leads; it asks again while there are some."""

    error_code: I16 = 0
    remaining_partitions: list[RemainingPartition] = field(default_factory=list)


API: Final = Api(ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownRequest, ControlledShutdownResponse)
