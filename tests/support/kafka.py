"""A real Apache Kafka 2.7.2 broker on its own ZooKeeper 3.5.9, as two processes on loopback.

Everything they write lies under one directory. The broker is ready when it answers; both end with the context, and
are killed when they do not end in time. Leaves out: clusters of more than one broker.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.launcher.processes import pause_child
from barnabas.launcher.sockets import free_port
from tests.support.kafka_jars import BROKER_JARS, class_path, java_command
from tests.support.topics import wait_for_controller

_JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
LOG4J = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class DidNotStart(Exception):
    """A process ended or stayed silent before it was ready. Carries the end of its output."""


@dataclass(slots=True)
class JavaProcess:
    """A Java program whose output goes to a file. Ends with its context."""

    name: str
    main_class: str
    arguments: Sequence[str]
    directory: Path
    jars: str
    jvm: Sequence[str] = _JVM_OPTIONS
    _process: subprocess.Popen[bytes] | None = None

    @property
    def output_path(self) -> Path:
        return self.directory / f"{self.name}.out"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        log4j = self.directory / "log4j.properties"
        log4j.write_text(LOG4J)
        command = [java_command(), *self.jvm, f"-Dlog4j.configuration=file:{log4j}", "-cp", self.jars]
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, self.main_class, *self.arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env=environment,
            )

    def wait_for_output(self, text: str) -> None:
        """Return when the program has written `text`; raise DidNotStart when it ended or took too long."""
        deadline = time.monotonic() + _START_SECONDS
        while text not in self.output_path.read_text(errors="replace"):
            self._check_alive()
            if time.monotonic() > deadline:
                raise DidNotStart(f"{self.name} did not say {text!r} in {_START_SECONDS} s:\n{self.tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _check_alive(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise DidNotStart(f"{self.name} ended with {self._process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        """The end of what it has written."""
        return self.output_path.read_text(errors="replace")[-4000:]


@contextlib.contextmanager
def running_zookeeper(directory: Path) -> Iterator[str]:
    """ZooKeeper out of Kafka's own jars. Yields its `host:port`."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = directory / "zoo.cfg"
    config.write_text(
        f"tickTime=500\nminSessionTimeout=1000\nmaxSessionTimeout=60000\ndataDir={directory / 'data'}\n"
        f"clientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
    )
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    zookeeper = JavaProcess("zookeeper", main_class, [str(config)], directory, class_path(BROKER_JARS))
    zookeeper.start()
    try:
        zookeeper.wait_for_output("binding to port")
        yield f"127.0.0.1:{port}"
    finally:
        zookeeper.stop()


ONE_BROKER_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What a cluster of one broker needs for groups and transactions."""


class Kafka:
    """One broker with id 1. `settings` override its `server.properties`; `log_directory` may exist already.

    Without the address of a ZooKeeper it starts one of its own. `jvm` has the options of the broker's JVM; those that
    stand unless told start it fast, and are none to measure it with.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        log_directory: Path | None = None,
        zookeeper: str | None = None,
        jvm: Sequence[str] = _JVM_OPTIONS,
    ) -> None:
        self.directory = directory
        self._zookeeper = zookeeper
        self._jvm = jvm
        self.log_directory = log_directory or directory / "kafka-logs"
        self._settings = dict(settings or {})
        self._resources = contextlib.ExitStack()
        self.host = "127.0.0.1"
        self.port = 0
        self._broker: JavaProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Of the broker's process."""
        assert self._broker is not None
        return self._broker.pid

    @property
    def output(self) -> str:
        """What the broker has written to its log so far."""
        assert self._broker is not None
        return self._broker.output_path.read_text(errors="replace")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as resources:
            self.directory.mkdir(parents=True, exist_ok=True)
            zookeeper = self._zookeeper or resources.enter_context(running_zookeeper(self.directory / "zookeeper"))
            self.port = free_port()
            config = self.directory / "server.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in self._properties(zookeeper).items()))
            jars = class_path(BROKER_JARS)
            broker = JavaProcess("kafka", "kafka.Kafka", [str(config)], self.directory, jars, self._jvm)
            broker.start()
            resources.callback(broker.stop)
            broker.wait_for_output("started (kafka.server.KafkaServer)")
            wait_for_controller(self.bootstrap)
            self._broker = broker
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._broker is not None:
            error.add_note(f"the end of the broker's output:\n{self._broker.tail()}")
        self._resources.close()

    def kill(self) -> None:
        """End the broker as `kill -9` does."""
        assert self._broker is not None
        self._broker.kill()

    def pause(self) -> None:
        """Return when all of its threads stand still."""
        assert self._broker is not None
        pause_child(self._broker.pid)

    def resume(self) -> None:
        assert self._broker is not None
        self._broker.resume()

    def _properties(self, zookeeper: str) -> dict[str, str]:
        return {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(self.log_directory),
            **self._settings,
        }
