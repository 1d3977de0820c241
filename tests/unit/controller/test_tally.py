"""What a controller counts, from what stood in ZooKeeper when it took office."""

from barnabas.protocol.ids import TopicPartition
from controller.tally import Tally
from controller.tally import tally as count
from tests.unit.controller.core_rig import Office, led, topic


def test_an_empty_cluster_counts_its_brokers() -> None:
    office = Office()
    office.take_over(1, 2)
    assert count(office.core.state) == Tally(brokers=2)


def test_partitions_that_nobody_or_another_than_the_preferred_leads_are_counted() -> None:
    office = Office()
    # Broker 3 is away: it alone was in sync with the second partition, and preferred for the third.
    states = {
        TopicPartition("t", 0): led(1, 5, [1, 2]),
        TopicPartition("t", 1): led(3, 5, [3]),
        TopicPartition("t", 2): led(2, 5, [2]),
    }
    office.take_over(1, 2, topics={"t": topic([1, 2], [3, 1], [3, 2])}, states=states)
    seen = count(office.core.state)
    assert (seen.brokers, seen.topics, seen.partitions) == (2, 1, 3)
    assert (seen.offline_partitions, seen.preferred_replica_imbalance) == (1, 2)


def test_a_topic_whose_deletion_waits_for_a_broker_wants_no_other_help() -> None:
    office = Office()
    states = {TopicPartition("t", 0): led(3, 5, [3]), TopicPartition("kept", 0): led(1, 5, [1])}
    topics = {"t": topic([3, 1]), "kept": topic([1])}
    office.take_over(1, 2, topics=topics, states=states, deletions=("t",))
    seen = count(office.core.state)
    assert (seen.topics, seen.partitions) == (2, 2)
    assert (seen.offline_partitions, seen.preferred_replica_imbalance) == (0, 0)
    assert (seen.topics_to_delete, seen.topics_ineligible_to_delete) == (1, 1)
    assert (seen.replicas_to_delete, seen.replicas_ineligible_to_delete) == (2, 1)
