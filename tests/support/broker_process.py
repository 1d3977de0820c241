"""A Barnabas broker as a process of its own, on loopback, with its log directory under one directory.

It is ready when it says so, and ends with its context: by SIGTERM, and by SIGKILL where that takes too long.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kafka import DidNotStart, free_port

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0


class BrokerProcess:
    """One broker, by default with id 1. `settings` override its `server.properties`."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str] | None = None,
        *,
        broker_id: int = 1,
        log_directory: Path | None = None,
    ) -> None:
        self.directory = directory
        self.log_directory = log_directory or directory / "logs"
        self.host = "127.0.0.1"
        self.port = free_port()
        self._broker_id = broker_id
        self._settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(self.log_directory),
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def output(self) -> str:
        """What the broker has written so far."""
        return self._output_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the broker and return when it says that it has started. Raises DidNotStart."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        with self._output_path.open("ab") as output:
            before = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker.main", str(config)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + _START_SECONDS
        while f"[KafkaServer id={self._broker_id}] started" not in self._output_path.read_bytes()[before:].decode():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise DidNotStart(f"the broker did not start:\n{self.output[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> int | None:
        """Ask the broker to end, wait for it, and return its exit status; None where it did not run."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.terminate()
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

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

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
