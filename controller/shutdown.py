"""A broker that is about to stop hands over what it leads (ControlledShutdown).  [P]

The broker counts as shutting down from its request until it is gone or registers anew. Each partition that another
replica in sync can lead is led by that one from now on; from the in-sync sets of the others it goes as well, and it is
told to stop following. What only it can lead stays with it until it is gone; where another live replica may yet catch
up, the partition is named in the answer, so that the broker may ask again. (Kafka names it where all others are gone
too: a cluster that is stopped as a whole then waits for nothing.)
"""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.actions import Answer, Report
from controller.commands import ControlledShutdown, ControlledShutdownResult
from controller.elections import elect_for_shutdown
from controller.office import Office, Procedure, batches
from controller.partitions import write_leaderships
from controller.state import Leadership, Partition, ReplicaPhase


def on_controlled_shutdown(office: Office, token: int, request: ControlledShutdown) -> Procedure[None]:
    """Answer one broker's request."""
    state, broker = office.state, request.broker_id
    registered = state.brokers.get(broker)
    if registered is None or registered.epoch != request.broker_epoch:
        yield [Answer(token, ControlledShutdownResult(ErrorCode.STALE_BROKER_EPOCH))]
        return
    if broker not in state.shutting_down:
        yield [
            Report(f"broker {broker} is about to stop; it holds {len(state.partitions_on.get(broker, ()))} replicas")
        ]
    state.shutting_down[broker] = None
    held = office.not_in_deletion(list(state.partitions_on.get(broker, ())))
    for batch in batches(at for at in held if _has_others(office, at)):
        changed = yield from write_leaderships(office, batch, _decide, reason=f"broker {broker} is about to stop")
        for at in batch:
            _tell(office, at, broker, is_changed=at in changed)
        office.changes += len(changed)
        yield office.flush()
    yield [Answer(token, ControlledShutdownResult(remaining=_still_led(office, broker)))]


def _has_others(office: Office, at: TopicPartition) -> bool:
    partition = office.state.partition(at)
    return partition is not None and partition.leadership is not None and len(partition.assignment.replicas) > 1


def _decide(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    assert partition.leadership is not None
    replicas = partition.assignment.replicas
    return elect_for_shutdown(
        replicas,
        partition.leadership,
        live=office.state.live_replicas(at, partition),
        staying=[each for each in replicas if office.state.is_replica_eligible(at, each)],
        epoch=office.state.term.epoch,
    )


def _tell(office: Office, at: TopicPartition, broker: BrokerId, *, is_changed: bool) -> None:
    partition = office.state.partition(at)
    assert partition is not None
    assert partition.leadership is not None
    if partition.leadership.leader != broker:
        partition.move_replica(broker, ReplicaPhase.OFFLINE)
        office.outbox.stop(at, broker)
    if is_changed:
        others = [each for each in office.state.live_replicas(at, partition) if each not in office.state.shutting_down]
        office.outbox.lead(at, others)
        office.outbox.publish(at)


def _still_led(office: Office, broker: BrokerId) -> list[TopicPartition]:
    led = []
    for at in office.state.partitions_on.get(broker, ()):
        partition = office.state.partition(at)
        if partition is None or partition.leadership is None or at.topic in office.state.deletions:
            continue
        others = (each for each in partition.assignment.replicas if each != broker)
        if partition.leadership.leader == broker and any(office.state.is_replica_eligible(at, each) for each in others):
            led.append(at)
    return led
