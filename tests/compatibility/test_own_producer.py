"""Our own producer, and the commands about groups and transactions, against a broker, read back by librdkafka."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import confluent_kafka
import pytest
from confluent_kafka import Consumer

from barnabas.admin.main import main
from barnabas.client import (
    Cluster,
    ClusterOptions,
    Codec,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFenced,
    ProducerOptions,
    TopicPartition,
    WrongTransactionState,
    open_cluster,
)
from barnabas.client.group_admin import GroupAdmin
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import produce
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Record, build_batch
from tests.compatibility.brokers import RunningBroker

T = TypeVar("T")


def run(broker: RunningBroker, work: Callable[[Cluster], Awaitable[T]]) -> T:
    async def with_cluster() -> T:
        options = ClusterOptions(request_timeout_ms=20_000, timeout_ms=40_000)
        async with open_cluster(broker.bootstrap, options=options) as cluster:
            return await work(cluster)

    return asyncio.run(with_cluster())


def transactional(name: str, **more: Any) -> ProducerOptions:
    return ProducerOptions(transactional_id=name, **more)


def read(broker: RunningBroker, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """The values of a topic's partition 0 up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "not-joined",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, "nothing for 20 s"
            if message.error():
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", Codec)
def test_records_are_written_once_and_in_order(broker: RunningBroker, codec: Codec) -> None:
    topic = broker.new_topic()
    values = [b"%06d" % number for number in range(5000)]

    async def work(cluster: Cluster) -> list[int]:
        options = ProducerOptions(codec=codec, batch_bytes=4096, linger_ms=1)
        async with Producer(cluster, options=options) as producer:
            sent = [await producer.send(topic, None, value, partition=0) for value in values]
            return [(await each).offset for each in sent]

    assert run(broker, work) == list(range(5000))
    assert read(broker, topic) == values


def test_transactions_are_read_when_they_are_committed(broker: RunningBroker) -> None:
    topic = broker.new_topic()

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, options=transactional(f"{topic}-id")) as producer:
            for number in range(6):
                with suppress(ZeroDivisionError):
                    async with producer.transaction():
                        for each in range(3):
                            await (await producer.send(topic, None, b"%d.%d" % (number, each), partition=0))
                        if number % 2:
                            raise ZeroDivisionError
            async with producer.transaction():
                pass
            with pytest.raises(WrongTransactionState, match="begin_transaction"):
                await producer.send(topic, None, b"outside", partition=0)

    run(broker, work)
    assert read(broker, topic) == [b"%d.%d" % (number, each) for number in (0, 2, 4) for each in range(3)]
    assert len(read(broker, topic, isolation="read_uncommitted")) == 18


def test_a_later_producer_with_the_id_fences_the_earlier(broker: RunningBroker) -> None:
    topic = broker.new_topic()

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, options=transactional(f"{topic}-id")) as zombie:
            zombie.begin_transaction()
            await (await zombie.send(topic, None, b"zombie", partition=0))
            async with Producer(cluster, options=transactional(f"{topic}-id")) as producer, producer.transaction():
                await producer.send(topic, None, b"living", partition=0)
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                await zombie.send(topic, None, b"zombie", partition=0)
            with pytest.raises(ProducerFenced):
                zombie.begin_transaction()

    run(broker, work)
    assert read(broker, topic) == [b"living"]


def test_after_a_record_was_refused_the_transaction_can_only_be_aborted(broker: RunningBroker) -> None:
    topic = broker.new_topic(settings={"max.message.bytes": "2000"})

    async def work(cluster: Cluster) -> None:
        async with Producer(cluster, options=transactional(f"{topic}-id")) as producer:
            producer.begin_transaction()
            await (await producer.send(topic, None, b"first", partition=0))
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.send_and_wait(topic, None, bytes(3000), partition=0)
            with pytest.raises(Exception, match="can only be aborted"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, None, b"second", partition=0)

    run(broker, work)
    assert read(broker, topic) == [b"second"]


def test_offsets_of_a_transaction_count_when_it_commits(broker: RunningBroker) -> None:
    topic = broker.new_topic()
    at, group = TopicPartition(topic, 0), f"{topic}-group"

    async def work(cluster: Cluster) -> list[int | None]:
        found: list[int | None] = []
        async with Producer(cluster, options=transactional(f"{topic}-id")) as producer:
            for offset, commit in ((5, True), (9, False)):
                producer.begin_transaction()
                await producer.send(topic, None, b"%d" % offset, partition=0)
                await producer.send_offsets_to_transaction({at: OffsetAndMetadata(offset)}, GroupMetadata(group))
                await (producer.commit_transaction() if commit else producer.abort_transaction())
                # The group's coordinator hears of the end after the producer does.
                for _ in range(100):
                    committed = await GroupAdmin(cluster).committed(group)
                    if committed:
                        break
                    await asyncio.sleep(0.05)
                found.append(committed[at].offset if at in committed else None)
        return found

    assert run(broker, work) == [5, 5]


def command(broker: RunningBroker, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments, "--bootstrap-server", broker.bootstrap, "--timeout", "30"])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_commands_about_groups(broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.new_topic(partitions=2)
    group = f"{topic}-group"

    async def fill(cluster: Cluster) -> None:
        async with Producer(cluster) as producer:
            for number in range(10):
                await producer.send(topic, None, b"v", timestamp=1_700_000_000_000 + number * 1000, partition=0)
        outcomes = await GroupAdmin(cluster).commit(group, {TopicPartition(topic, 0): OffsetAndMetadata(4)})
        assert set(outcomes.values()) == {None}

    run(broker, fill)
    listed = json.loads(command(broker, capsys, "groups", "list", "-o", "json")[1])
    assert group in {each["group"] for each in listed}
    (row,) = json.loads(command(broker, capsys, "groups", "lag", group, "-o", "json")[1])
    assert (row["committed"], row["end"], row["lag"]) == (4, 10, 6)
    assert row["lag_seconds"] > 1000
    (described,) = json.loads(command(broker, capsys, "groups", "describe", group, "-o", "json")[1])
    assert (described["state"], described["members"], described["lag"]) == ("Empty", 0, 6)

    def reset(*arguments: str) -> list[int]:
        status, out, err = command(broker, capsys, "groups", "reset", group, *arguments, "-o", "json")
        assert status == 0, err
        return [each["target"] for each in json.loads(out)]

    assert reset(topic, "--to-earliest") == [0, 0]
    assert reset(f"{topic}:0", "--to-latest") == [10]
    assert reset("--all-topics", "--to-offset", "7") == [7]
    assert reset("--all-topics", "--shift-by", "-3") == [1]
    assert reset("--all-topics", "--to-datetime", "1700000002500") == [3]
    assert reset("--all-topics", "--by-duration", "1h") == [10]
    assert command(broker, capsys, "groups", "reset", group, "--all-topics", "--shift-by", "2", "--execute")[0] == 0
    (row,) = json.loads(command(broker, capsys, "groups", "lag", group, "-o", "json")[1])
    assert row["committed"] == 6
    assert command(broker, capsys, "groups", "delete-offsets", group, f"{topic}:0", "--yes")[0] == 0
    run(broker, fill)
    assert command(broker, capsys, "groups", "delete", group, "--yes")[0] == 0
    status, _, err = command(broker, capsys, "groups", "describe", group)
    assert (status, group in err) == (3, True)


def test_a_group_with_members_is_not_reset(broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.new_topic(partitions=2)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-g", "client.id": "reader"})
    assigned: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    try:
        for _ in range(200):
            consumer.poll(0.1)
            if assigned:
                break
        (row,) = json.loads(command(broker, capsys, "groups", "members", f"{topic}-g", "-o", "json")[1])
        assert (row["client"], row["partitions"]) == ("reader", [f"{topic}-0", f"{topic}-1"])
        status, _, err = command(broker, capsys, "groups", "reset", f"{topic}-g", topic, "--to-latest", "--execute")
        assert (status, "has 1 members" in err) == (1, True)
    finally:
        consumer.close()


def test_the_commands_about_transactions(broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.new_topic()
    name = f"{topic}-id"

    async def work(cluster: Cluster) -> list[tuple[int, str, str]]:
        async with Producer(cluster, options=transactional(name)) as producer:
            producer.begin_transaction()
            await (await producer.send(topic, None, b"open", partition=0))
            asked = (
                ("list", "-o", "json"),
                ("describe", name, "-o", "json"),
                ("find-hanging", topic, "--older-than", "0"),
            )
            return [await asyncio.to_thread(command, broker, capsys, "txn", *each) for each in asked]

    listed, described, hanging = run(broker, work)
    if listed[0] != 0:
        # Kafka 2.7 has none of these APIs.
        assert "does not serve LIST_TRANSACTIONS" in listed[2]
        return
    assert (name, "Ongoing") in {(each["transactional_id"], each["state"]) for each in json.loads(listed[1])}
    (row,) = json.loads(described[1])
    assert (row["state"], row["partitions"]) == ("Ongoing", [f"{topic}-0"])
    assert (hanging[0], hanging[1]) == (0, "no transaction hangs\n")
    assert command(broker, capsys, "txn", "abort", f"{topic}:0", "--start-offset", "77", "--yes")[0] == 3


def test_a_hanging_transaction_is_ended(broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = broker.new_topic()
    at = TopicPartition(topic, 0)

    async def hang(cluster: Cluster) -> int:
        """Write a transactional record without a transaction, as a request does that comes too late."""
        options = transactional(f"{topic}-id")
        async with Producer(cluster, options=options) as producer:
            assert producer._transactions is not None
            producer_id, epoch = producer._transactions.identity
        batch = build_batch(
            [Record(0, 1000, None, b"late")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [TopicProduceData(topic, [PartitionProduceData(0, batch)])]
        request = ProduceRequest(f"{topic}-id", -1, 10_000, data)
        response = await cluster.ask((await cluster.leader(at)).node_id, produce.API, request)
        code = response.responses[0].partitions[0].error_code
        if code:
            # A broker that asks the coordinator first lets no transaction hang (KIP-890).
            assert code == ErrorCode.INVALID_TXN_STATE
            return -1
        async with Producer(cluster) as plain:
            await plain.send_and_wait(topic, None, b"behind", partition=0)
        return producer_id

    producer_id = run(broker, hang)
    if producer_id < 0:
        return
    assert read(broker, topic) == []
    status, out, _ = command(broker, capsys, "txn", "find-hanging", topic, "--older-than", "0", "-o", "json")
    if status == 0:
        (row,) = json.loads(out)
        assert (row["producer_id"], row["start_offset"]) == (producer_id, 0)
        named = ("--start-offset", "0")
    else:
        named = ("--producer-id", str(producer_id), "--producer-epoch", "0", "--coordinator-epoch", "-1")
    assert command(broker, capsys, "txn", "abort", f"{topic}:0", *named, "--yes")[0] == 0
    assert read(broker, topic) == [b"behind"]
