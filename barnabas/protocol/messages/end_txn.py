"""EndTxn (API key 26): commits or aborts a transaction (KIP-98).

Transactional producers send it to their coordinator.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 lets the coordinator answer PRODUCER_FENCED (KIP-588).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, Str
from barnabas.protocol.schema import Api, message


@message(versions=(0, 2))
class EndTxnRequest:
    """Whose transaction ends, and how."""

    transactional_id: Str = ""
    producer_id: I64 = 0
    producer_epoch: I16 = 0
    committed: Bool = False


@message(versions=(0, 2))
class EndTxnResponse:
    """Whether the decision stands."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0


API: Final = Api(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse)
