"""What ties a broker's transactions to the cluster: markers go out, and coordinators are asked about transactions."""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.runtime.network import Network
from broker.fetching import reach_brokers
from broker.handlers.write_txn_markers import write_markers
from broker.marker_sending import MarkerSending
from broker.services import Services
from broker.transaction_verification import TransactionVerification


def link_transactions(services: Services, network: Network, spawn: Callable[..., "asyncio.Task[Any]"]) -> None:
    """Have the coordinators' markers sent, and beginnings of transactions verified."""
    reach = reach_brokers(services.config, metadata=services.metadata, network=network)

    async def write_own(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(await write_markers(services, request.markers))

    coordination = services.coordination
    coordination.carry_out = MarkerSending(
        services.broker_id,
        metadata=services.metadata,
        zk=services.zk,
        reach=reach,
        write_own=write_own,
        spawn=spawn,
    ).carry_out
    coordination.verify = TransactionVerification(
        services.broker_id, coordination=coordination, metadata=services.metadata, reach=reach, spawn=spawn
    ).verify
