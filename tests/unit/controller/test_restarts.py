"""Brokers that started anew while nobody was in office: what the next controller finds by the age of their znodes."""

from dataclasses import replace

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.actions import Report
from controller.events import BrokersRead, ClusterRead, IsrChangesRead, Reply, TopicConfigRead, Unknown
from controller.state import Leadership
from tests.unit.controller.core_rig import AT, Office, broker, led, sent, topic, writes
from zk_schema.ops import Set

OLD, NEW = 100, 900
"""Epochs of registrations before and after the state znode was written."""
NO_SETTINGS = TopicConfigRead({})
WRITTEN = 500


def taken_over(epochs: dict[int, int], isr: list[int], leader: int, *replies: Reply) -> Office:
    office = Office()
    brokers = {BrokerId(number): broker(number, epoch) for number, epoch in epochs.items()}
    state = replace(led(leader, 4, isr), mzxid=WRITTEN)
    office.handle(ClusterRead(brokers, {"t": topic([1, 2, 3])}, {AT: state}, ()), *replies)
    return office


def now(office: Office) -> tuple[int, int, list[int]]:
    partition = office.core.state.partition(AT)
    assert partition is not None
    assert partition.leadership is not None
    leadership = partition.leadership
    return leadership.leader, leadership.leader_epoch, list(leadership.isr)


@pytest.mark.parametrize(
    ("epochs", "isr", "leader", "after"),
    [
        pytest.param({1: OLD, 2: OLD, 3: OLD}, [1, 2, 3], 1, (1, 4, [1, 2, 3]), id="nobody"),
        pytest.param({1: OLD, 2: NEW, 3: OLD}, [1, 2, 3], 1, (1, 5, [1, 3]), id="a follower"),
        pytest.param({1: NEW, 2: OLD, 3: OLD}, [1, 2, 3], 1, (2, 5, [2, 3]), id="the leader"),
        pytest.param({1: NEW, 2: NEW, 3: OLD}, [1, 2, 3], 1, (3, 5, [3]), id="all but one"),
        pytest.param({1: NEW, 2: NEW, 3: NEW}, [1, 2, 3], 2, (2, 5, [2]), id="all: the leader leads on, alone"),
        pytest.param({1: NEW, 2: NEW, 3: NEW}, [1, 2, 3], -1, (1, 5, [1]), id="all, and nobody led"),
        pytest.param({1: OLD, 2: OLD, 3: OLD}, [1, 2], -1, (1, 5, [1]), id="who wrote that nobody leads knew why"),
        pytest.param({1: NEW, 3: OLD}, [1, 2], 2, (1, 5, [1]), id="the leader is away, a follower is back"),
        pytest.param({1: OLD, 2: NEW, 3: OLD}, [1, 3], 1, (1, 4, [1, 3]), id="who was not in sync anyhow"),
        pytest.param({1: NEW, 2: OLD, 3: OLD}, [1], 1, (1, 5, [1]), id="the last in sync"),
    ],
)
def test_who_restarted_is_in_sync_no_more_while_another_is(
    epochs: dict[int, int], isr: list[int], leader: int, after: tuple[int, int, list[int]]
) -> None:
    office = taken_over(epochs, isr, leader)
    assert now(office) == after
    assert "LeaderAndIsr" in sent([each for batch in office.batches for each in batch], 1)


def test_who_is_away_at_the_takeover_has_restarted_when_it_comes() -> None:
    office = taken_over({3: OLD}, [1, 2], 1)
    assert now(office) == (-1, 5, [1, 2])
    known = dict(office.core.state.brokers)
    actions = office.handle(BrokersRead(known | {BrokerId(n): broker(n, NEW + n) for n in (1, 2)}))
    assert now(office) == (1, 6, [1])
    assert len(writes(actions)) == 1


def test_who_is_away_stays_out_of_sync_when_the_state_is_read_again() -> None:
    office = taken_over({3: OLD}, [1, 2], 1)
    read = replace(led(-1, 5, [1, 2], version=1), mzxid=NEW + 50)
    office.handle(IsrChangesRead((AT,), ()), read)
    known = dict(office.core.state.brokers)
    office.handle(BrokersRead(known | {BrokerId(n): broker(n, NEW + n) for n in (1, 2)}))
    assert now(office) == (1, 6, [1])


@pytest.mark.parametrize("isr", [[1, 2, 3], [1]])
def test_who_restarted_is_not_forgotten_when_the_write_about_it_was_not_done(isr: list[int]) -> None:
    """Else it is told to lead on in its old epoch, with what it had before."""
    unchanged = replace(led(1, 4, isr), mzxid=WRITTEN)
    office = taken_over({1: NEW, 2: NEW, 3: NEW}, isr, 1, NO_SETTINGS, Unknown(), unchanged)
    assert now(office) == (1, 5, [1])


def test_who_came_after_another_wrote_the_state_has_restarted() -> None:
    """A write of the controller before this one came late: this one's is refused, and what stands there is read."""
    theirs = replace(led(2, 5, [2, 3], version=1), mzxid=NEW - 50)
    office = taken_over({1: OLD, 2: NEW, 3: OLD}, [1, 2, 3], 1, Unknown(), theirs)
    assert now(office) == (3, 6, [3])


@pytest.mark.parametrize(
    ("knowing", "after"),
    [
        pytest.param({1: OLD, 2: NEW, 3: OLD}, (2, 4, [2, 1, 3]), id="it knew all"),
        pytest.param({1: OLD, 2: OLD, 3: OLD}, (1, 5, [1, 3]), id="it did not know that the leader started anew"),
        pytest.param({1: OLD, 3: OLD}, (1, 5, [1, 3]), id="it knew that the leader was away, not that it is back"),
        pytest.param({}, (2, 5, [2]), id="it knew nobody"),
    ],
)
def test_a_write_that_came_after_a_registration_tells_whether_its_controller_knew_of_it(
    knowing: dict[int, int], after: tuple[int, int, list[int]]
) -> None:
    """It waited for a connection: the leader that it names lost the end of its log meanwhile, and came back."""
    office = Office()
    brokers = {BrokerId(number): broker(number, epoch) for number, epoch in {1: OLD, 2: NEW, 3: OLD}.items()}
    state = replace(led(2, 4, [2, 1, 3], knowing=knowing), mzxid=NEW + 1)
    office.handle(ClusterRead(brokers, {"t": topic([1, 2, 3])}, {AT: state}, ()))
    assert now(office) == after


def test_a_controller_writes_down_which_starts_of_the_members_it_knows() -> None:
    office = taken_over({1: OLD, 2: NEW, 3: OLD}, [1, 2, 3], 2)
    (write,) = writes([each for batch in office.batches for each in batch])
    operation = write.operations[-1]
    assert isinstance(operation, Set)
    assert Leadership.decode(operation.data).broker_epochs == {1: OLD, 3: OLD}
    office.handle(BrokersRead({BrokerId(2): broker(2, NEW)}))
    (write,) = writes([each for batch in office.batches for each in batch])
    operation = write.operations[-1]
    assert isinstance(operation, Set)
    nobody = Leadership.decode(operation.data)
    assert (nobody.leader, nobody.isr, nobody.broker_epochs) == (-1, (1, 3), {}), "who is away is not named"


def test_a_restart_that_is_seen_together_with_others_is_one() -> None:
    office = taken_over({1: OLD, 2: OLD, 3: OLD}, [1, 2, 3], 1)
    again = {BrokerId(number): broker(number, NEW + number) for number in (1, 2, 3)}
    office.handle(BrokersRead(again))
    leader, epoch, isr = now(office)
    assert (epoch > 4, isr) == (True, [leader])


def test_the_age_of_a_znode_counts_only_when_it_was_read() -> None:
    """What this controller wrote itself it wrote knowing the registrations."""
    office = taken_over({1: OLD, 2: OLD, 3: OLD}, [1, 2, 3], 1)
    actions = office.handle(BrokersRead({BrokerId(1): broker(1, OLD), BrokerId(2): broker(2, OLD)}))
    (write,) = writes(actions)
    operation = write.operations[-1]
    assert isinstance(operation, Set)
    assert list(Leadership.decode(operation.data).isr) == [1, 2]
    actions = office.handle(BrokersRead(dict(office.core.state.brokers)))
    assert not [each for each in actions if not isinstance(each, Report)]


def test_partitions_are_judged_one_by_one() -> None:
    office = Office()
    brokers = {BrokerId(number): broker(number, epoch) for number, epoch in {1: 400, 2: 600}.items()}
    states = {
        TopicPartition("t", 0): replace(led(1, 4, [1, 2]), mzxid=500),
        TopicPartition("t", 1): replace(led(1, 4, [1, 2]), mzxid=700),
    }
    office.handle(ClusterRead(brokers, {"t": topic([1, 2], [1, 2])}, states, ()))
    found = [office.core.state.topics["t"].partitions[number].leadership for number in (0, 1)]
    assert [each and each.isr for each in found] == [(1,), (1, 2)]
