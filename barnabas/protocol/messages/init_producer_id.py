"""InitProducerId (API key 22): gives a producer its id and epoch (KIP-98).

Idempotent producers send it to any broker, transactional ones to their coordinator.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
Version 3 adds the id and epoch that the producer has, so that it can go on after an error (KIP-360).
Version 4 lets the coordinator answer PRODUCER_FENCED (KIP-588).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr
from barnabas.protocol.schema import Api, field, message


@message(versions=(0, 4), flexible=2)
class InitProducerIdRequest:
    """Which producer; the transactional id is null for one that is only idempotent."""

    transactional_id: NullableStr = ""
    transaction_timeout_ms: I32 = 0
    producer_id: I64 = field(default=-1, since=3)
    producer_epoch: I16 = field(default=-1, since=3)


@message(versions=(0, 4), flexible=2)
class InitProducerIdResponse:
    """The producer's id and epoch."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    producer_id: I64 = -1
    producer_epoch: I16 = 0


API: Final = Api(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse)
