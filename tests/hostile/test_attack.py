"""200 connections send hostile frames at a broker; its memory, its event loop and its other clients do not feel it."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from barnabas.launcher.processes import pause_child
from barnabas.protocol.ids import TopicPartition
from tests.hostile.attacker import Report, Settings
from tests.hostile.conftest import StartBroker
from tests.hostile.healthy import CpuWaits, HealthyClient, Window, typical_ms
from tests.support import soak
from tests.support.api_client import ApiConnection
from tests.support.broker_process import BrokerProcess
from tests.support.topics import create_topic

pytestmark = [pytest.mark.soak, pytest.mark.processes]

FRAMES = 10_000
SOAK_FRAMES_A_MINUTE = 10_000
FRAMES_A_SECOND = 500
ATTEMPTS = 3
WINDOW_SECONDS = 1.0
QUIET_WINDOWS = 5
MEBIBYTE = 1024 * 1024
FAILED = "a request failed in the broker"
LATE = "barnabas_event_loop_late_total"
REFUSED = "barnabas_refused_connections_total"


class Attacker:
    """The attacking process; it ends with its context."""

    def __init__(self, broker: BrokerProcess, settings: Settings) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.hostile.attacker",
                broker.host,
                str(broker.port),
                json.dumps(asdict(settings)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.report = Report()

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def is_at_it(self) -> bool:
        return self._process.poll() is None

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        pause_child(self._process.pid)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        output, _ = self._process.communicate(timeout=30)
        if kind is None:
            assert self._process.returncode == 0
            self.report = Report(**json.loads(output))


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({})


@pytest.mark.timeout(1500)
def test_an_attack_is_not_felt(broker: BrokerProcess, seed: int) -> None:
    (victim,) = create_topic(broker.bootstrap, "victim")
    # The healthy client's records bear no time, so they are as old as can be.
    (own,) = create_topic(broker.bootstrap, "healthy", settings={"retention.ms": "-1"})
    frames = max(FRAMES, int(SOAK_FRAMES_A_MINUTE * soak.minutes()))
    # Other work on the machine can make the times worse and never better: they are to hold in one attack of these.
    for attempt in range(ATTEMPTS):
        settings = Settings(victim.topic, seed + attempt, frames=frames, rate=FRAMES_A_SECOND)
        felt = attack(broker, victim, own, settings)
        assert FAILED not in broker.output
        assert felt.rise_mib < 64
        if felt.late_turns == 0 and typical_ms(felt.attacked) < 2 * typical_ms(felt.quiet):
            return
    assert felt.late_turns == 0
    assert typical_ms(felt.attacked) < 2 * typical_ms(felt.quiet)


def attack(broker: BrokerProcess, victim: TopicPartition, own: TopicPartition, settings: Settings) -> "Felt":
    """One attack, which took place and was refused; what was felt of it."""
    assert settings.connections == 200
    with (
        ApiConnection(broker.host, broker.port) as connection,
        Attacker(broker, settings) as attacker,
        CpuWaits(broker.pid) as waits,
    ):
        for _ in range(20):
            connection.produce(victim, bytes(60_000))
        felt = measure(broker, HealthyClient(connection, own, waits), attacker)
    report = attacker.report
    print(f"\nseed {settings.seed}: {report.frames} frames in {report.seconds:.1f} s, {report}\n{felt}")
    assert report.frames >= 0.95 * settings.frames, "the attack took place"
    assert felt.refused_connections > settings.frames / 20, "the broker was seen to refuse it"
    return felt


@dataclass(slots=True)
class Felt:
    """What the broker and its other client felt, in windows of a second."""

    quiet: list[Window]
    attacked: list[Window]
    resident_before: int
    resident: list[int]
    late_turns: int
    refused_connections: float

    @property
    def rise_mib(self) -> float:
        return (max(self.resident) - self.resident_before) / MEBIBYTE

    def __str__(self) -> str:
        return (
            f"p99 quiet {typical_ms(self.quiet):.2f} ms of {', '.join(map(str, self.quiet))}\n"
            f"p99 attacked {typical_ms(self.attacked):.2f} ms of {', '.join(map(str, self.attacked))}\n"
            f"resident +{self.rise_mib:.1f} MiB, at most {max(self.resident) // MEBIBYTE} MiB; "
            f"event loop late {self.late_turns} times; {self.refused_connections:.0f} connections refused"
        )


def measure(broker: BrokerProcess, client: HealthyClient, attacker: Attacker) -> Felt:
    """Quiet windows first, then attacked ones with a quiet one after each three.

    In those the attacker stands still. So what else the machine does falls into both alike.
    """
    client.window(WINDOW_SECONDS)
    felt = Felt([client.window(WINDOW_SECONDS) for _ in range(QUIET_WINDOWS)], [], 0, [], 0, 0)
    felt.resident_before = broker.resident_bytes()
    first = broker.metrics()
    attacker.begin()
    while attacker.is_at_it:
        with unexcused_late_turns(broker) as late:
            felt.attacked.append(client.window(WINDOW_SECONDS))
        felt.late_turns += len(late)
        felt.resident.append(broker.resident_bytes())
        if len(felt.attacked) % 3 == 0:
            with attacker.standing_still():
                felt.quiet.append(client.window(WINDOW_SECONDS))
    felt.refused_connections = broker.metrics()[REFUSED] - first[REFUSED]
    return felt


@contextlib.contextmanager
def unexcused_late_turns(broker: BrokerProcess) -> Iterator[list[float]]:
    """How often the loop was more than 50 ms late, unless the broker waited as long for a CPU, which is the machine's.

    The time that the scheduler let it wait is in the second field of its schedstat, in nanoseconds.
    """
    statistics = Path(f"/proc/{broker.pid}/schedstat")
    late: list[float] = []
    before, waited_before = broker.metrics()[LATE], int(statistics.read_text().split()[1])
    yield late
    waited_ms = (int(statistics.read_text().split()[1]) - waited_before) / 1e6
    count = int(broker.metrics()[LATE] - before)
    if waited_ms < 50 * count:
        late += [waited_ms] * count
