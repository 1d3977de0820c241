"""Brokers that come, go, or come back so fast that nobody saw them gone.  [P]

What is read is the whole set of registrations, each with its epoch (the czxid of its znode). A broker whose epoch
changed was gone in between: its partitions move to others as if it were, and then it is welcomed like any other, for a
restarted replica may have lost what it had not flushed. Several brokers that go together are one pass over the
partitions that they held.
"""

from collections.abc import Collection, Iterable, Mapping

from barnabas.protocol.ids import BrokerId, TopicPartition
from controller import deletion, last_replica, replica_moves
from controller.actions import Action, Connect, Disconnect, Report
from controller.office import Office, Procedure, batches
from controller.partitions import settle
from controller.state import RegisteredBroker


def on_brokers(office: Office, read: Mapping[BrokerId, RegisteredBroker]) -> Procedure[None]:
    """Compare the registrations with the ones known."""
    known = office.state.brokers
    gone = [broker for broker in known if broker not in read or read[broker].epoch != known[broker].epoch]
    altered = {broker: read[broker] for broker in known if broker not in gone and read[broker] != known[broker]}
    if gone:
        yield from _dismiss(office, gone)
    if altered:
        yield from _on_altered(office, altered)
    added = {broker: registered for broker, registered in sorted(read.items()) if broker not in known}
    if added:
        yield from welcome(office, added)
        yield from end_welcome(office, added)
        held = _held(office, added)
        yield from settle(office, held, tell=added.keys(), reason=f"brokers {sorted(added)} came")
        yield from replica_moves.on_isr_changed(office, held)
        yield from deletion.on_brokers_added(office, added)


def _held(office: Office, brokers: Iterable[BrokerId]) -> list[TopicPartition]:
    """The partitions with a replica on any of these, each once."""
    held: dict[TopicPartition, None] = {}
    for broker in brokers:
        held.update(office.state.partitions_on.get(broker, {}))
    return list(held)


def _dismiss(office: Office, gone: list[BrokerId]) -> Procedure[None]:
    state = office.state
    held = _held(office, gone)
    actions: list[Action] = [Report(f"brokers {gone} are gone; they held {len(held)} partitions")]
    for broker in gone:
        last_replica.forget(office, broker, state.partitions_on.get(broker, ()))
        state.apply_broker_gone(broker)
        actions.append(Disconnect(broker, "it is gone"))
    yield actions
    deletion.on_brokers_gone(office, ((at, broker) for broker in gone for at in state.partitions_on.get(broker, {})))
    office.outbox.greet(state.brokers)
    yield from settle(office, held, tell=(), reason=f"brokers {gone} are gone")


def _on_altered(office: Office, altered: Mapping[BrokerId, RegisteredBroker]) -> Procedure[None]:
    """A broker changed its endpoints or its rack without starting anew."""
    actions: list[Action] = []
    for broker, registered in altered.items():
        before = office.state.brokers[broker].info.control_endpoint
        office.state.apply_broker(broker, registered)
        if registered.info.control_endpoint != before:
            actions.append(Disconnect(broker, "its control endpoint moved"))
            actions += _connect(broker, registered)
    yield actions
    office.outbox.greet(office.state.brokers)
    yield office.flush()


def welcome(office: Office, added: Mapping[BrokerId, RegisteredBroker]) -> Procedure[None]:
    """Open channels to new brokers and tell all brokers of each other; the new ones are told of all partitions.

    All this is sent before any partition is given to the new ones: a follower must know where its leader is.
    """
    state = office.state
    actions: list[Action] = [Report(f"brokers {sorted(added)} came")] if added else []
    for broker, registered in added.items():
        state.apply_broker(broker, registered)
        actions += _connect(broker, registered)
    yield actions
    office.outbox.greet(state.brokers)
    yield office.flush()
    for batch in batches(list(state.all_partitions())):
        office.outbox.publish_to(added, batch)
        yield office.flush()


def end_welcome(office: Office, brokers: Collection[BrokerId]) -> Procedure[None]:
    """These were told of all partitions. What else they knew was deleted while no controller reached them."""
    office.outbox.end_welcome(brokers)
    yield office.flush()


def _connect(broker: BrokerId, registered: RegisteredBroker) -> list[Action]:
    endpoint = registered.info.control_endpoint
    assert endpoint is not None, "a broker that cannot be told anything"
    return [Connect(broker, endpoint)]
