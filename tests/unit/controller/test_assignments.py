"""Writing replicas into the znode of a topic that others write too, in values."""

from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.actions import ReadTopic, Report, Write
from controller.assignments import write_assignments
from controller.events import Confirmed, Refused, Reply, TopicZnodeRead, Unknown
from controller.state import Assignment, TopicRead
from tests.unit.controller.test_core import Office, led, topic
from zk_schema import paths
from zk_schema.ops import Done, Set, Stat, VersionMoved, WriteForbidden, Written
from zk_schema.payloads import TopicAssignment

AT = TopicPartition("t", 0)


def replicas(*numbers: int) -> Assignment:
    return Assignment(tuple(map(BrokerId, numbers)))


WANTED = replicas(1, 3)


def written(version: int) -> Confirmed:
    return Confirmed((Done(), Written(Stat(0, 0, 0, 0, version, 0, 0, 0))))


def run(office: Office, *replies: Reply) -> tuple[list[Set], list[str], set[TopicPartition]]:
    """What is written, what is reported, and of what ZooKeeper says so in the end, with these answers."""
    procedure = write_assignments(office.core._office, {AT: WANTED}, reason="test")
    script, writes, reports = list(replies), [], []
    batch = next(procedure)
    try:
        while True:
            questions = [each for each in batch if isinstance(each, ReadTopic | Write)]
            reports += [each.message for each in batch if isinstance(each, Report)]
            for each in questions:
                if isinstance(each, Write):
                    operation = each.operations[-1]
                    assert isinstance(operation, Set)
                    writes.append(operation)
            batch = procedure.send(tuple(script.pop(0) for _ in questions))
    except StopIteration as done:
        assert not script
        return writes, reports, done.value


def office() -> Office:
    made = Office()
    made.take_over(1, 2, 3, topics={"t": topic([1, 2])}, states={AT: led(1, 4, [1, 2])})
    return made


def test_partitions_that_somebody_added_are_kept_and_looked_at_afterwards() -> None:
    made = office()
    read = TopicRead({0: replicas(1, 2), 1: replicas(2, 3)}, 5)
    writes, _, done = run(made, read, written(6))
    assert [(each.path, each.version) for each in writes] == [(paths.topic("t"), 5)]
    assert TopicAssignment.decode(writes[0].data).partitions == {0: (1, 3), 1: (2, 3)}
    assert done == {AT}
    assert made.core.state.topics["t"].version == 0
    made.core.state.apply_assignment(AT, WANTED)
    made.handle(TopicZnodeRead("t", TopicRead({0: WANTED, 1: replicas(2, 3)}, 6)))
    assert made.core.state.partition(TopicPartition("t", 1)) is not None


def test_a_znode_of_a_known_version_with_unknown_partitions_is_news() -> None:
    made = office()
    made.handle(TopicZnodeRead("t", TopicRead({0: replicas(1, 2), 1: replicas(2, 3)}, 0)))
    assert made.core.state.partition(TopicPartition("t", 1)) is not None


def test_our_own_write_is_no_news() -> None:
    made = office()
    run(made, TopicRead({0: replicas(1, 2)}, 5), written(6))
    assert made.core.state.topics["t"].version == 6


def test_a_write_that_came_too_late_is_made_again_from_what_stands_there() -> None:
    late = Refused(VersionMoved(Set(paths.topic("t"), b"", 5), 1))
    writes, _, done = run(
        office(), TopicRead({0: replicas(1, 2)}, 5), late, TopicRead({0: replicas(1, 2)}, 8), written(9)
    )
    assert [each.version for each in writes] == [5, 8]
    assert done == {AT}


def test_a_write_whose_answer_was_lost_is_not_made_twice() -> None:
    writes, _, done = run(office(), TopicRead({0: replicas(1, 2)}, 5), Unknown(), TopicRead({0: WANTED}, 6))
    assert len(writes) == 1
    assert done == {AT}


def test_a_topic_that_is_gone_or_cannot_be_written_is_told() -> None:
    assert run(office(), None)[1:] == (["test: the znode of t is gone or has no such partitions"], set())
    assert run(office(), TopicRead({1: replicas(1, 2)}, 5))[2] == set()
    forbidden = Refused(WriteForbidden(Set(paths.topic("t"), b"", 5), 1))
    _, reports, done = run(office(), TopicRead({0: replicas(1, 2)}, 5), forbidden)
    assert (len(reports), done) == (1, set())
