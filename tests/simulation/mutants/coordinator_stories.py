"""Scripted plans for bugs of the coordinators: groups, committed offsets and transactions on whole brokers.

As in `stories`, each plan holds on the shipped code and fails with its bug put back. The topics of the coordinators
have one partition each; who leads that is the coordinator.
"""

from barnabas.client.group_protocol import Subscription, encode_subscription
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.plan import TOPIC, Scene
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.simulation.mutants.coordinator_clients import (
    PATIENCE_S,
    CarefulWriter,
    GroupClient,
    StableReader,
    TransactionTool,
    Transactor,
)
from tests.simulation.mutants.stories import cut, heal, host, partition_on

NONE = ErrorCode.NONE
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
TRANSACTIONS = TopicPartition(TRANSACTION_STATE, 0)

PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
}
"""Of every cluster here; plans add their own."""


async def until_stable(scene: Scene, *, timeout_s: float = 60.0) -> None:
    """Wait until no transaction is open in the scene's partition; none may stay."""
    reader, waited_s = StableReader(scene), 0.0
    while await reader.lag(scene.partition) != 0:
        assert waited_s < timeout_s, "the last stable offset stands still"
        await scene.sleep(0.25)
        waited_s += 0.25


async def lead_elsewhere(scene: Scene) -> int:
    """Have the story be of a partition whose leader has nothing of the transactions' topic; which broker."""
    assert await Transactor(scene, "first").initialise() is NONE
    await scene.await_leader(at=TRANSACTIONS)
    for number in range(PARTITIONS):
        scene.partition = TopicPartition(TOPIC, number)
        leader = await scene.await_leader()
        if leader not in scene.replicas(TRANSACTIONS):
            return leader
    raise AssertionError("each leader has a replica of the transactions' topic")


async def an_aborted_producer_comes_back(scene: Scene) -> None:
    """52. The coordinator aborts for a producer that then is heard of again: its epoch must be known as an old one."""
    zombie = Transactor(scene, timeout_ms=1_000)
    await zombie.begin()
    await scene.sleep(3)
    await until_stable(scene)
    await scene.sleep(5)
    error = await zombie.write(in_transaction=False)
    assert error is ErrorCode.INVALID_PRODUCER_EPOCH, f"the old epoch is taken: {error.name}"


async def a_coordinator_goes_with_what_it_told(scene: Scene) -> None:
    """53. A commit is acknowledged by a coordinator whose followers do not get it, and which is then gone."""
    client = GroupClient(scene)
    assert await client.commit(1) is NONE
    assert await client.committed() == 1
    old = await scene.await_leader(at=OFFSETS)
    followers = scene.followers(OFFSETS)
    for follower in followers:
        cut(scene, old, follower)
    client.patience_s = 0.0
    told = await client.commit(2)
    scene.world.kill(old)
    client.patience_s = PATIENCE_S
    for follower in followers:
        heal(scene, old, follower)
    await scene.await_leader(at=OFFSETS, otherwise=old)
    committed = await client.committed()
    assert committed == 2 or told is not NONE, f"2 was acknowledged, {committed} is committed"


async def the_log_takes_no_epochs(scene: Scene) -> None:
    """54. A producer begins again and again while the transaction log is short of replicas."""
    producer = Transactor(scene)
    assert await producer.initialise() is NONE
    leader = await scene.await_leader(at=TRANSACTIONS)
    gone = [number for number in scene.replicas(TRANSACTIONS) if number != leader]
    for number in gone:
        scene.world.kill(number)
    await scene.until(lambda: scene.isr(TRANSACTIONS) == (leader,), timeout_s=90)
    await scene.sleep(2)
    producer.patience_s = 0.0
    for _ in range(3):
        assert await producer.initialise() is not NONE
    producer.patience_s = PATIENCE_S
    for number in gone:
        scene.world.start(number)
    await scene.until(lambda: len(scene.isr(TRANSACTIONS)) > 1)
    assert await producer.initialise() is NONE
    assert producer.identity[1] == 1, f"epoch {producer.identity[1]} after two successes"


async def a_marker_meets_no_leader(scene: Scene) -> None:
    """55. A transaction is decided while the leader of its partition is gone; its end must come there all the same."""
    leader = await lead_elsewhere(scene)
    producer = Transactor(scene)
    await producer.begin()
    scene.world.kill(leader)
    assert await producer.end(commit=True) is NONE
    await scene.await_leader(otherwise=leader)
    await until_stable(scene)


async def tombstones_do_not_fit(scene: Scene) -> None:
    """56. Many transactional ids expire at once, in a log that takes small batches only."""
    for number in range(12):
        assert await Transactor(scene, f"a-transactional-id-of-some-length-{number}").initialise() is NONE
    await scene.sleep(25)
    assert not await TransactionTool(scene).listing(), "there are old ids left"


async def a_request_comes_after_the_end(scene: Scene) -> None:
    """57. A batch of an aborted transaction comes late; nobody will end what it begins."""
    producer = Transactor(scene)
    await producer.begin()
    assert await producer.end(commit=False) is NONE
    await until_stable(scene)
    assert await producer.write() is not NONE, "it is taken"
    await until_stable(scene)


async def an_end_is_asked_for_again(scene: Scene) -> None:
    """59. EndTxn comes again while the markers of the transaction cannot be written yet."""
    leader = await lead_elsewhere(scene)
    producer = Transactor(scene)
    await producer.begin()
    scene.world.pause(leader)
    assert await producer.end(commit=True) is NONE
    again = await producer.end(commit=True)
    scene.world.resume(leader)
    assert again is ErrorCode.CONCURRENT_TRANSACTIONS, f"it is told {again.name}"
    await until_stable(scene)


async def a_wall_clock_steps(scene: Scene) -> None:
    """60. A transaction is open while its coordinator's clock steps, first ahead and then back."""
    producer = Transactor(scene)
    await producer.begin()
    wall = scene.world.machines[await scene.await_leader(at=TRANSACTIONS)].wall
    for step_ms in (3_600_000, -7_200_000):
        wall.offset_ms += step_ms
        await scene.sleep(2)
        assert await producer.write() is NONE, "it has ended before its time"
    assert await producer.end(commit=True) is NONE
    await until_stable(scene)


async def an_error_is_taken_for_the_last_word(scene: Scene) -> None:
    """61. A leader is deposed with a batch that others have; who hears an error for good sends the record anew."""
    await scene.until(lambda: scene.controller() is not None)
    while scene.controller() in scene.replicas():
        scene.partition = TopicPartition(TOPIC, scene.partition.partition + 1)
    old = await scene.await_leader()
    assert await scene.produce(at=scene.partition)
    writer = CarefulWriter(scene)
    followers = scene.followers()
    end = scene.end(old)
    for follower in followers:
        # What they ask for already they get; that they have got it the leader does not hear.
        scene.world.cut(host(follower), host(old))
    sending = writer.write_soon()
    await scene.until(lambda: scene.end(old) > end)
    await scene.sleep(0.2)
    assert all(scene.end(each) > end for each in followers), "the followers have not got it"
    scene.world.expire_session(old)
    await scene.await_leader(otherwise=old)
    await scene.until(lambda: (replica := partition_on(scene, old)) is not None and not replica.is_leader)
    for follower in followers:
        scene.world.heal(host(follower), host(old))
    await sending


async def a_commit_is_overtaken(scene: Scene) -> None:
    """62. An offset sent to a transaction is followed by a commit; when the transaction ends it is the older one."""
    producer, client = Transactor(scene), GroupClient(scene)
    await producer.begin()
    assert await producer.add_offsets(client.group_id) is NONE
    assert await producer.commit_offset(client.group_id, 3) is NONE
    assert await client.commit(9) is NONE
    assert await producer.end(commit=True) is NONE
    await until_stable(scene)
    await scene.sleep(1)
    assert await client.committed() == 9, "an older commit came back"
    scene.world.kill(await scene.await_leader(at=OFFSETS))
    assert await client.committed() == 9, "an older commit came back with the load"


async def a_member_reads_on_and_on(scene: Scene) -> None:
    """63. A group has its offsets for longer than they would outlive it."""
    client = GroupClient(scene)
    subscription = encode_subscription(Subscription((scene.partition.topic,)))
    joined = await client.join(subscription)
    assert await client.sync([(joined.member_id, b"")]) is NONE
    assert await client.commit(5) is NONE
    for _ in range(25):
        await scene.sleep(5)
        assert await client.heartbeat() is NONE
    assert await client.committed() == 5, "what is in use has expired"


async def a_static_member_is_restarted(scene: Scene) -> None:
    """64. A static member comes again without its id, and then its coordinator goes."""
    first = GroupClient(scene, instance_id="one")
    joined = await first.join(b"")
    assert await first.sync([(joined.member_id, b"")]) is NONE
    second = GroupClient(scene, instance_id="one")
    await second.join(b"")
    assert second.member_id != first.member_id
    scene.world.kill(await scene.await_leader(at=OFFSETS))
    assert await second.heartbeat() is NONE, "the next coordinator does not know it"
    assert await first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


async def a_coordinator_is_cut_off(scene: Scene) -> None:
    """P5. A coordinator that only clients reach is replaced; who asks it must not hear of what was committed before."""
    former, latter = GroupClient(scene), GroupClient(scene)
    assert await former.commit(1) is NONE
    assert await former.committed() == 1
    old = await scene.await_leader(at=OFFSETS)
    others = [number for number in scene.world.machines if number != old]
    for each in others:
        cut(scene, old, each)
    scene.world.cut_zookeeper(old)
    await scene.await_leader(at=OFFSETS, otherwise=old)
    assert await latter.commit(2) is NONE
    assert await latter.committed() == 2
    assert await former.committed() == 2, "what was replaced is told"
    for each in others:
        heal(scene, old, each)
    scene.world.heal_zookeeper(old)


async def a_producer_is_gone(scene: Scene) -> None:
    """P4. A producer is gone, and so is its coordinator: the transaction outlives its time by a minute at most."""
    producer = Transactor(scene, timeout_ms=2_000)
    await producer.begin()
    scene.world.kill(await scene.await_leader(at=TRANSACTIONS))
    await until_stable(scene, timeout_s=62.0)
    assert await producer.end(commit=True) is not NONE, "it could be committed yet"
