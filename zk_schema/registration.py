"""How a broker stands in /brokers/ids: a multi of create with null data and set, as Kafka 2.7.

So the data's version is 1 right after a start, and the broker epoch is the znode's czxid. A znode of our own earlier
session (expired here, not yet there) is removed and made anew in one multi; a znode of anybody else means that the id
is taken. The decision is pure; `register_broker` drives it.
"""

import asyncio
import logging
from dataclasses import dataclass

from barnabas.protocol.ids import BrokerEpoch, BrokerId
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import Create, Delete, NodeExists, NodeMissing, Op, OutcomeUnknown, Set, VersionMoved, Written, Znode
from zk_schema.paths import broker
from zk_schema.payloads import BrokerRegistration
from zk_schema.port import DataChanged, Disconnected, Expired, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)


class BrokerIdTaken(Exception):
    """Another live session holds the registration of this broker id."""


@dataclass(frozen=True, slots=True)
class Registered:
    """Nothing is to be written: the znode is ours as it should be."""

    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody else holds the id."""

    owner: int
    address: str


def decide_registration(
    present: Znode | None, *, broker_id: BrokerId, data: bytes, session_id: int, previous_session_id: int
) -> list[Op] | Registered | Taken:
    """What to do about the broker's znode as it was read: write these, nothing, or give up."""
    path = broker(broker_id)
    make: list[Op] = [Create(path, None, ephemeral=True), Set(path, data, 0)]
    if present is None:
        return make
    owner = present.stat.ephemeral_owner
    if owner == session_id and present.data == data:
        return Registered(BrokerEpoch(present.stat.czxid))
    # An owner of 0 is a znode that no session's end removes; it is not for a broker to judge.
    if owner != 0 and owner in (session_id, previous_session_id):
        return [Delete(path, present.stat.version), *make]
    return Taken(owner, _address(present.data))


async def register_broker(
    zk: ZooKeeper,
    broker_id: BrokerId,
    registration: BrokerRegistration,
    *,
    wait_ms: int = 0,
) -> BrokerEpoch:
    """Register, and return the broker epoch. A znode of another session is waited for up to `wait_ms` to go away.

    The time begins anew when the connection was lost: another server that leads gives all sessions theirs anew.

    Raises:
        BrokerIdTaken: another session still holds the id.
        SessionLost: register again when a new session is there.
    """
    path, data = broker(broker_id), registration.encode()
    loop = asyncio.get_running_loop()
    ends_s: float | None = None
    while True:
        try:
            present = await zk.get(path)
            decision = decide_registration(
                present,
                broker_id=broker_id,
                data=data,
                session_id=zk.session_id,
                previous_session_id=zk.previous_session_id,
            )
            if isinstance(decision, Registered):
                return decision.broker_epoch
            if isinstance(decision, Taken):
                ends_s = loop.time() + wait_ms / 1000 if ends_s is None else ends_s
                if await _wait_for_removal(zk, broker_id, decision, ends_s - loop.time()):
                    ends_s = None
                continue
            written = (await zk.write(*decision))[-1]
        except (NodeExists, NodeMissing, VersionMoved, OutcomeUnknown) as error:
            log.info("broker %d: registration is looked at again: %s", broker_id, error)
            continue
        assert isinstance(written, Written)
        log.info("broker %d: registered at %s, epoch %d", broker_id, path, written.stat.czxid)
        return BrokerEpoch(written.stat.czxid)


async def _wait_for_removal(zk: ZooKeeper, broker_id: BrokerId, taken: Taken, wait_s: float) -> bool:
    """Return once the znode changed, or at once when it has; True where the connection was lost instead.

    Raises:
        BrokerIdTaken: it stayed.
    """
    path = broker(broker_id)
    changed = asyncio.Event()
    was_lost = False

    def on_event(event: ZooKeeperEvent) -> None:
        nonlocal was_lost
        was_lost |= isinstance(event, Disconnected | Expired)
        if was_lost or (isinstance(event, DataChanged) and event.path == path):
            changed.set()

    end = zk.listen(on_event)
    try:
        async with asyncio.timeout(wait_s):
            if await zk.exists(path, watch=True) is None:
                return False
            log.warning(
                "broker %d: session %#x at %s holds this id; waiting %.1f s for it to end",
                broker_id,
                taken.owner,
                taken.address,
                wait_s,
            )
            await changed.wait()
            return was_lost
    except TimeoutError:
        raise BrokerIdTaken(
            f"broker id {broker_id} is taken: session {taken.owner:#x} has registered it at {taken.address}"
        ) from None
    finally:
        end()


def _address(data: bytes) -> str:
    try:
        return ", ".join(map(str, BrokerRegistration.decode(data).endpoints)) or "an address that it does not tell"
    except InvalidPayload:
        return "an address that cannot be read"
