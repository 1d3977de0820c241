from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch
from controller.command_queue import CommandQueue
from controller.commands import (
    Command,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LiveLeader,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)

HEADER = (BrokerId(1), ControllerEpoch(2), BrokerEpoch(3))
ONE = BrokerId(1)


def lead(*numbers: int, epoch: int = 0, is_new: bool = False, leaders: tuple[LiveLeader, ...] = ()) -> LeaderAndIsr:
    entries = [
        LeaderAndIsrPartition("t", each, ControllerEpoch(2), ONE, LeaderEpoch(epoch), (ONE,), 0, (ONE,), is_new=is_new)
        for each in numbers
    ]
    return LeaderAndIsr(*HEADER, entries, leaders)


def stop(*numbers: int, epoch: int = 0, delete: bool = False) -> StopReplica:
    return StopReplica(*HEADER, [StopReplicaPartition("t", each, LeaderEpoch(epoch), delete) for each in numbers])


def tell(*numbers: int, epoch: int = 0, brokers: Iterable[int] = (1,), ends: bool = False) -> UpdateMetadata:
    entries = [
        UpdateMetadataPartition("t", each, ControllerEpoch(2), ONE, LeaderEpoch(epoch), (ONE,), 0, (ONE,))
        for each in numbers
    ]
    return UpdateMetadata(*HEADER, entries, tuple(LiveBroker(BrokerId(each), ()) for each in brokers), ends)


def drained(queue: CommandQueue) -> list[Command]:
    taken = []
    while queue:
        taken.append(queue.take())
    return taken


def queued(*commands: Command, limit: int = 2_000) -> CommandQueue:
    queue = CommandQueue(limit)
    for command in commands:
        queue.put(command)
    return queue


def test_commands_leave_in_the_order_in_which_they_came() -> None:
    commands: list[Command] = [tell(), lead(0), tell(0), stop(1), lead(2)]
    queue = CommandQueue()
    for command in commands:
        queue.put(command)
        assert drained(queue) == [command]


def test_a_later_leadership_takes_the_place_of_an_earlier_one() -> None:
    assert drained(queued(lead(0, 1), stop(2), lead(1, epoch=5))) == [lead(0), stop(2), lead(1, epoch=5)]


def test_neighbouring_leaderships_become_one_message() -> None:
    here, there = LiveLeader(ONE, "a", 1), LiveLeader(BrokerId(2), "b", 2)
    merged = drained(queued(lead(0, leaders=(here,)), lead(1, leaders=(here, there))))
    assert merged == [lead(0, 1, leaders=(here, there))]


def test_that_a_partition_is_new_is_not_lost() -> None:
    assert drained(queued(lead(0, is_new=True), lead(0, epoch=1))) == [lead(0, epoch=1, is_new=True)]


def test_a_stop_takes_the_place_of_what_came_before_it() -> None:
    assert drained(queued(lead(0, 1), stop(0), stop(0, epoch=-2, delete=True))) == [
        lead(1),
        stop(0, epoch=-2, delete=True),
    ]


def test_a_removal_of_the_log_is_not_lost() -> None:
    assert drained(queued(stop(0, delete=True), lead(0), stop(0, epoch=3))) == [stop(0, epoch=3, delete=True)]


def test_the_old_log_is_removed_before_the_new_one_is_made() -> None:
    commands: list[Command] = [stop(0, epoch=-2, delete=True), lead(0, is_new=True)]
    assert drained(queued(*commands)) == commands


def test_metadata_joins_what_waits_behind_the_last_leadership_and_all_of_it_knows_who_lives() -> None:
    both = (1, 2)
    assert drained(queued(tell(0, 1), tell(1, epoch=4, brokers=both))) == [
        UpdateMetadata(*HEADER, [*tell(0).partitions, *tell(1, epoch=4).partitions], tell(brokers=both).live_brokers)
    ]
    assert drained(queued(tell(0, 1), lead(0), tell(1, epoch=4, brokers=both))) == [
        tell(0, brokers=both),
        lead(0),
        tell(1, epoch=4, brokers=both),
    ]
    assert drained(queued(tell(0), lead(0), tell(1, 2, ends=True), stop(1), tell(2, epoch=5, brokers=both))) == [
        tell(0, brokers=both),
        lead(0),
        stop(1),
        UpdateMetadata(
            *HEADER, [*tell(1).partitions, *tell(2, epoch=5).partitions], tell(brokers=both).live_brokers, True
        ),
    ]


def test_a_message_without_partitions_still_tells_of_the_brokers() -> None:
    assert drained(queued(tell(brokers=(1, 2)))) == [tell(brokers=(1, 2))]


def test_a_great_command_leaves_as_several() -> None:
    for make in (lead, stop, tell):
        taken = drained(queued(make(*range(5)), limit=2))
        assert taken == [make(0, 1), make(2, 3), make(4)]


def test_a_command_that_was_not_answered_goes_first_again() -> None:
    for command in (lead(0), stop(0), tell(0), tell()):
        queue = queued(command, stop(6), lead(5))
        queue.put_back(queue.take())
        assert drained(queue) == [command, stop(6), lead(5)]


def test_what_was_superseded_meanwhile_does_not_go_again() -> None:
    queue = queued(lead(0, 1, 2, is_new=True))
    taken = queue.take()
    queue.put(lead(1, epoch=1))
    queue.put(stop(2, epoch=1))
    queue.put_back(taken)
    assert drained(queue) == [lead(0, is_new=True), lead(1, epoch=1, is_new=True), stop(2, epoch=1)]


def test_a_stop_that_was_not_answered_keeps_its_removal() -> None:
    queue = queued(stop(0, 1, delete=True))
    taken = queue.take()
    queue.put(stop(1, epoch=2))
    queue.put_back(taken)
    assert drained(queue) == [stop(0, delete=True), stop(1, epoch=2, delete=True)]


def test_metadata_that_was_not_answered_goes_first_with_what_came_since() -> None:
    queue = queued(tell(0, 1))
    taken = queue.take()
    queue.put(lead(0))
    queue.put(tell(1, epoch=3, brokers=(2,)))
    queue.put_back(taken)
    assert drained(queue) == [tell(0, brokers=(2,)), lead(0), tell(1, epoch=3, brokers=(2,))]


def test_metadata_that_was_not_answered_does_not_tell_of_a_leader_that_has_yet_to_hear_of_it() -> None:
    queue = queued(tell(0), lead(1))
    taken = queue.take()
    queue.put(tell(0, 1, epoch=3))
    queue.put(lead(0, epoch=4))
    queue.put(tell(0, epoch=5))
    for _ in range(3):
        queue.put_back(taken)
        taken = queue.take()
    queue.put_back(taken)
    assert drained(queue) == [tell(), lead(1), tell(1, epoch=3), lead(0, epoch=4), tell(0, epoch=5)]


def test_that_a_welcome_ends_stands_in_the_last_portion_and_is_not_lost() -> None:
    assert drained(queued(tell(0, ends=True), tell(1, 2), limit=2)) == [tell(0, 1), tell(2, ends=True)]
    assert drained(queued(tell(0), tell(ends=True))) == [tell(0, ends=True)]
    for command in (tell(ends=True), tell(0, ends=True)):
        queue = queued(command)
        taken = queue.take()
        queue.put(tell(1))
        queue.put_back(taken)
        (told,) = drained(queue)
        assert isinstance(told, UpdateMetadata)
        assert told.ends_welcome


def test_what_waits_does_not_grow_with_how_long_it_waits() -> None:
    queue = CommandQueue()
    for epoch in range(1_000):
        queue.put(lead(0, 1, epoch=epoch))
        queue.put(tell(0, 1, epoch=epoch))
        queue.put(stop(0, epoch=epoch))
    assert len(queue._order) < 100
    assert sum(len(command.partitions) for command in drained(queue)) <= 6


SENDING = ["answered", "answer lost", "command lost"]
SCRIPTS = st.lists(
    st.tuples(
        st.sampled_from(["lead", "lead new", "stop", "delete", "tell", "end welcome"]),
        st.sets(st.integers(0, 3), min_size=1),
    )
    | st.tuples(st.sampled_from(SENDING), st.just(set[int]())),
    max_size=30,
)


def made(kind: str, numbers: set[int], epoch: int) -> Command:
    match kind:
        case "lead" | "lead new":
            return lead(*numbers, epoch=epoch, is_new=kind == "lead new")
        case "tell" | "end welcome":
            return tell(*numbers, epoch=epoch, ends=kind == "end welcome")
        case _:
            return stop(*numbers, epoch=epoch, delete=kind == "delete")


@given(SCRIPTS)
def test_a_broker_ends_where_it_would_without_merging_whatever_is_lost(script: list[tuple[str, set[int]]]) -> None:
    queue, plain, merged = CommandQueue(limit=2), Broker(), Broker()
    unanswered: Command | None = None
    for epoch, (kind, numbers) in enumerate([*script, ("answered", set[int]())]):
        if kind not in SENDING:
            command = made(kind, numbers, epoch)
            plain.obey(command)
            merged.note(plain, command)
            queue.put(command)
            continue
        if unanswered is not None:
            queue.put_back(unanswered)
            unanswered = None
        if queue:
            command = queue.take()
            if kind != "command lost":
                merged.obey(command)
            unanswered = None if kind == "answered" else command
    for command in drained(queue):
        merged.obey(command)
    assert (merged.led, merged.told, merged.new) == (plain.led, plain.told, plain.new)
    assert merged.logs <= plain.logs


class Broker:
    """What a broker would be after its commands: who is led at which epoch, which logs are there, what is told.

    `new`: what was said to be new since it was stopped last. Of an earlier registration it knows partitions 0 and 3.
    """

    def __init__(self) -> None:
        self.led: dict[int, int] = {}
        self.logs: set[int] = set()
        self.new: set[int] = set()
        self.told: dict[int, int] = {0: -1, 3: -1}
        self.named: set[int] | None = set()
        self.before: dict[tuple[int, int], int] = {}
        self.superseded: dict[int, int] = {}

    def note(self, plain: "Broker", command: Command) -> None:
        """Of each telling, in which epoch the broker has led or followed by then; of each partition, its last order."""
        for entry in command.partitions:
            if isinstance(entry, StopReplicaPartition | LeaderAndIsrPartition):
                self.superseded[entry.partition] = entry.leader_epoch
            elif isinstance(entry, UpdateMetadataPartition) and entry.partition in plain.led:
                self.before[entry.partition, entry.leader_epoch] = plain.led[entry.partition]

    def obey(self, command: Command) -> None:
        self._obey_entries(command)
        if isinstance(command, UpdateMetadata) and command.ends_welcome and self.named is not None:
            self.told = {number: epoch for number, epoch in self.told.items() if number in self.named}
            self.named = None

    def _obey_entries(self, command: Command) -> None:
        for entry in command.partitions:
            number = entry.partition
            match entry:
                case LeaderAndIsrPartition():
                    self.led[number] = entry.leader_epoch
                    self.logs.add(number)
                    if entry.is_new:
                        self.new.add(number)
                case StopReplicaPartition():
                    self.led.pop(number, None)
                    self.new.discard(number)
                    if entry.delete:
                        self.logs.discard(number)
                case UpdateMetadataPartition():
                    self.told[number] = entry.leader_epoch
                    led = self.before.get((number, entry.leader_epoch), -1)
                    assert led <= self.led.get(number, -1) or led < self.superseded[number], "clients hear first"
                    if self.named is not None:
                        self.named.add(number)
