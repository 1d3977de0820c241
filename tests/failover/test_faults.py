"""A fault that did not act, or did not heal, fails; and what ends a disk ends no other."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.clients import Follower, LoadClient
from tests.failover.load.history_file import HistoryFile, now_us
from tests.failover.world import catalogue, isolation
from tests.failover.world.disks import PowerCut, cut_power
from tests.failover.world.fault import DidNotAct, DidNotHeal, Fault, Role, Scene
from tests.failover.world.network import Cut, Host
from tests.failover.world.network_faults import Direction, From, Isolate
from tests.failover.world.process_faults import Kill, Pause


@dataclasses.dataclass
class FakeProcess:
    """A broker's process that no signal reaches."""

    port: int = 1
    pid: int = 1
    settings: dict[str, str] = dataclasses.field(default_factory=dict)

    def send_signal(self, number: int) -> None: ...


@dataclasses.dataclass
class FakeBroker:
    """A broker that goes on whatever happens to it."""

    id: int
    host: Host
    process: FakeProcess = dataclasses.field(default_factory=FakeProcess)
    ports: tuple[int, int] = (1, 2)
    is_running: bool = True
    is_paused: bool = False

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def launch(self) -> None: ...


class FakeView:
    """Three registered brokers; the second leads."""

    def controller(self) -> int:
        return 3

    def brokers(self) -> set[int]:
        return {1, 2, 3}

    def broker_epoch(self, broker_id: int) -> int:
        return 17

    def partitions(self, topics: tuple[str, ...]) -> dict[TopicPartition, Any]:
        return {TopicPartition("t", 0): dataclasses.make_dataclass("Led", ["leader"])(2)}


class FakeNetwork:
    """Lets everything through, and keeps rules that were taken back."""

    def can_connect(self, source: Host, target: Host, port: int, *, seconds: float = 0.0) -> bool:
        return True

    def cut(self, cuts: list[Cut]) -> None: ...

    def heal(self, cuts: list[Cut]) -> int:
        return 0

    def rules(self) -> int:
        return 1


@pytest.fixture
def scene() -> Scene:
    hosts = {broker_id: Host(f"broker{broker_id}", "127.0.0.1", ()) for broker_id in (1, 2, 3)}
    zookeepers = dataclasses.make_dataclass("ZooKeepers", ["hosts", "members"])({}, {})
    fields = {
        "brokers": {broker_id: FakeBroker(broker_id, host) for broker_id, host in hosts.items()},
        "view": FakeView(),
        "network": FakeNetwork(),
        "zookeepers": zookeepers,
        "clients": Host("clients", "127.0.0.1", ()),
    }
    world = dataclasses.make_dataclass("FakeWorld", list(fields))(**fields)
    return Scene(cast("Any", world), ("t",), lambda seconds: None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Kill(Role.LEADER),
        lambda: Pause(Role.CONTROLLER, seconds=1),
        lambda: Isolate(Role.FOLLOWER, From.BROKERS),
        lambda: Isolate(Role.LEADER, From.OTHERS, Direction.TO),
    ],
    ids=["kill", "pause", "isolate", "one way"],
)
def test_a_fault_that_did_not_act_is_found(scene: Scene, make: Callable[[], Fault]) -> None:
    fault = make()
    fault.aim(scene)
    fault.start(scene)
    with pytest.raises(DidNotAct):
        fault.prove_acted(scene)


def test_a_fault_that_did_not_heal_is_found(scene: Scene) -> None:
    for fault in (Kill(Role.LEADER), Isolate(Role.LEADER, From.BROKERS)):
        fault.aim(scene)
        fault.start(scene)
        fault.stop(scene)
        with pytest.raises(DidNotHeal):
            fault.prove_healed(scene)


def test_roles_are_of_the_first_partition_and_a_follower_is_not_the_controller_as_well(scene: Scene) -> None:
    assert [scene.cast(role).id for role in (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)] == [2, 1, 3]


def test_only_a_loop_device_loses_its_power(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc")):
        with pytest.raises(PowerCut, match="is not where a loop device is mounted"):
            cut_power(path)


def test_every_fault_of_the_catalogue_says_what_it_does() -> None:
    made = [make() for make in catalogue.FAULTS.values()]
    assert len({fault.name for fault in made}) == len(made)
    on_loopback = catalogue.names(network=False, disk="plain")
    assert "kill-leader" in on_loopback
    assert not any(
        name.startswith(("isolate", "leader-", "cut-power", "slow-disk", "fill-disk")) for name in on_loopback
    )


def test_a_pause_that_is_shorter_than_a_session_is_not_drawn_out_until_another_leads() -> None:
    pauses = {name: make() for name, make in catalogue.FAULTS.items() if name.startswith("pause-")}
    assert len(pauses) == 2 * len(Role)
    assert all(pause.fails_over != name.endswith("-briefly") for name, pause in pauses.items())


CUT_AND_HEAL = """
import subprocess, sys
from tests.failover.world.network import Cut, Network, both_ways
network = Network(["one", "two", "three"], isolated=True)
network.build()
one, two, three = network.hosts.values()
server = "import socket, time; s = socket.create_server(('', int(__import__('sys').argv[1])))\\nwhile True: s.accept()"
servers = [
    subprocess.Popen([*host.wrapper, sys.executable, "-c", server, str(port)]) for host in (one, two) for port in (7, 8)
]
for host in (one, two):
    for port in (7, 8):
        while not network.can_connect(three, host, port): pass
both = both_ways(one, two)
network.cut(both)
assert not network.can_connect(one, two, 7) and not network.can_connect(two, one, 7)
assert network.can_connect(three, two, 7)
assert network.rules() == 2 and network.heal(both) > 0 and network.rules() == 0
one_way = [Cut(one, two, (7,))]
network.cut(one_way)
assert not network.can_connect(one, two, 7)
assert network.can_connect(one, two, 8) and network.can_connect(two, one, 7)
assert network.heal(one_way) > 0 and network.can_connect(one, two, 7)
print("as it should")
"""


def test_what_is_cut_does_not_arrive_and_all_else_does() -> None:
    if reason := isolation.why_no_network():
        pytest.skip(reason)
    program = isolation.command([sys.executable, "-c", CUT_AND_HEAL])
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "as it should\n"), done.stderr


class FakeClient:
    """A load client of which there is only the file."""

    def __init__(self, path: Path) -> None:
        self.history = path
        self.task = dataclasses.make_dataclass("FakeTask", ["topic", "client"])("t", "client")

    def check(self) -> None: ...


def test_a_record_that_is_under_way_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    path.write_text("client client\ni 1000 t|0|client|0|0|crc|\n")
    follower = Follower([cast("LoadClient", FakeClient(path))])
    follower.await_pending([here], seconds=0)
    with path.open("a") as file:
        file.write("k 2000 0 0 0\ni 3000 t|1|client|0|0|crc|\n")
    follower.await_pending([here, there], seconds=0)
    with pytest.raises(AssertionError, match="nothing was sent"):
        follower.await_pending([here], seconds=0)


def test_a_mark_knows_what_was_pending_and_when_writes_went_on(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    with HistoryFile(path, "client") as history:
        sent = [history.sends(here, size_bytes=0)[0] for _ in range(3)]
        history.sends(there, size_bytes=0)
        history.acknowledged(0, sent[0], 0)
        history.flush()
        follower = Follower([cast("LoadClient", FakeClient(path))])
        follower.look()
        mark = follower.mark([here], now_us())
        history.acknowledged(0, sent[1], 1)
        history.acknowledged(0, sent[2], 2)
        history.acknowledged(1, 0, 0)
    follower.look()
    assert (mark.pending, mark.has_resumed, follower.acknowledged) == ({here: 2}, False, 4)
    with path.open("a") as file:
        file.write(f"i {mark.at_us + 1000} t|0|client|0|3|crc|\nk {mark.at_us + 7000} 0 3 3\n")
        file.write(f"i {mark.at_us + 8000} t|0|client|0|4|crc|\nk {mark.at_us + 29000} 0 4 4\ne 1 fenced\n")
    with pytest.raises(AssertionError, match="client: fenced"):
        follower.look()
    assert (mark.resumed_ms, mark.has_resumed, mark.slowest_ms) == ({here: 7}, True, 7)
    assert mark.longest_silence_ms == 22
