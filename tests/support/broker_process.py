"""A Barnabas broker as a process of its own, on loopback, with its log directory under one directory.

It is ready when it says so, and ends with its context: by SIGTERM, and by SIGKILL where that takes too long.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from barnabas.launcher.compiled import packages_root
from barnabas.launcher.sockets import free_port
from tests.support.kafka import DidNotStart

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02
# `entry` may be a module of the tests, which have no compiled copy.
_TESTS_ROOT = Path(__file__).resolve().parents[2]


class BrokerProcess:
    """One broker, by default with id 1. `settings` override its `server.properties`; both may change between starts.

    `entry` is the module that runs, `wrapper` the command in front of Python, `python_options` what Python gets.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str] | None = None,
        *,
        broker_id: int = 1,
        host: str = "127.0.0.1",
        port: int | None = None,
        log_directory: Path | None = None,
        entry: str = "broker.main",
        wrapper: Sequence[str] = (),
        python_options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.log_directory = log_directory or directory / "logs"
        self.host = host
        self.port = port or free_port()
        self.environment = dict(environment or {})
        self._broker_id = broker_id
        self.settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(self.log_directory),
            **(settings or {}),
        }
        self._command = [*wrapper, sys.executable, *python_options, "-P", "-m", entry]
        self._process: subprocess.Popen[bytes] | None = None
        self._output_start = 0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def output(self) -> str:
        """What the broker has written so far, in all its lives."""
        return self._output_path.read_text(errors="replace")

    @property
    def output_of_this_life(self) -> str:
        """What it has written since its last start."""
        return self._output_path.read_bytes()[self._output_start :].decode(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_started(self) -> bool:
        """Whether it was started and not seen to end since."""
        return self._process is not None

    @property
    def exit_status(self) -> int | None:
        """None while it runs; minus the signal's number when one ended it."""
        assert self._process is not None
        return self._process.poll()

    @property
    def started_line(self) -> str:
        return f"[KafkaServer id={self._broker_id}] started"

    def start(self) -> None:
        """Start the broker and return when it says that it has started. Raises DidNotStart."""
        self.launch()
        try:
            self.wait_for(self.started_line)
        except AssertionError as error:
            self.stop()
            raise DidNotStart(str(error)) from None

    def launch(self) -> None:
        """Start the process and wait for nothing."""
        assert self._process is None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        with self._output_path.open("ab") as output:
            self._output_start = output.tell()
            self._process = subprocess.Popen(
                [*self._command, str(config)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": f"{packages_root()}{os.pathsep}{_TESTS_ROOT}", **self.environment},
            )

    def wait_for(self, text: str, *, seconds: float = _START_SECONDS) -> str:
        """Return the first line of this life that has `text` in it. Fails when the process ends or takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.exit_status is not None
            for line in self.output_of_this_life.splitlines():
                if text in line:
                    return line
            assert not ended, f"the broker ended with {self.exit_status} and had not said {text!r}:\n{self._tail()}"
            assert time.monotonic() < deadline, f"the broker did not say {text!r} in {seconds} s:\n{self._tail()}"
            time.sleep(_POLL_SECONDS)

    def wait_for_end(self, *, seconds: float = _STOP_SECONDS) -> int:
        """Return the exit status of a process that ends by itself. Fails when it does not."""
        process = self._process
        assert process is not None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the broker had not ended after {seconds} s:\n{self._tail()}") from None
        self._process = None
        return status

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int | None:
        """Ask the broker to end, wait for it, and return its exit status; None where it did not run."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.terminate()
        # A stopped process does not see a SIGTERM before it goes on.
        process.send_signal(signal.SIGCONT)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill(process)
            return process.returncode

    def kill(self) -> None:
        """End the broker as `kill -9` does."""
        process, self._process = self._process, None
        if process is not None:
            self._kill(process)

    def metrics(self) -> dict[str, float]:
        """The broker's samples by their name with labels, as Prometheus writes them; needs `barnabas.metrics.port`."""
        found = re.search(r"metrics are shown at (http://\S+)", self.output_of_this_life)
        assert found is not None, "start the broker with barnabas.metrics.port=0"
        with urllib.request.urlopen(found[1], timeout=30) as answer:
            text = answer.read().decode()
        samples: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return samples

    def resident_bytes(self) -> int:
        """Its resident memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def _tail(self) -> str:
        return self.output_of_this_life[-4000:]

    @property
    def _output_path(self) -> Path:
        return self.directory / "broker.out"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
