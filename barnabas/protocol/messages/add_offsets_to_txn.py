"""AddOffsetsToTxn (API key 25): makes a group's offsets part of a transaction (KIP-98).

Transactional producers send it to their coordinator before TxnOffsetCommit.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 lets the coordinator answer PRODUCER_FENCED (KIP-588).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, message


@message(versions=(0, 2))
class AddOffsetsToTxnRequest:
    """Whose transaction shall carry which group's offsets."""

    transactional_id: Str = ""
    producer_id: I64 = 0
    producer_epoch: I16 = 0
    group_id: Str = ""


@message(versions=(0, 2))
class AddOffsetsToTxnResponse:
    """Whether the group was added."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0


API: Final = Api(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
