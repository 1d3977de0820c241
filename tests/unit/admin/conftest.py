import asyncio
import io
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.admin.main import main
from tests.unit.client.small_cluster import SmallCluster


class Ran(NamedTuple):
    """How a command ended and what it wrote."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_BOOTSTRAP_SERVER", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def served() -> Iterator[SmallCluster]:
    """A cluster that answers from a thread of its own, as commands run their own loop."""
    small = SmallCluster(brokers=2)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(small.__aenter__(), loop).result(5)
    yield small
    asyncio.run_coroutine_threadsafe(small.__aexit__(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in this process, with `stdin` as its standard input."""

    def call(*arguments: str, stdin: bytes = b"") -> Ran:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        with given.open("rb") as file, monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(file))
            status = main(arguments)
        written = capfdbinary.readouterr()
        return Ran(status, written.out, written.err.decode())

    return call


@pytest.fixture
def on_cluster(run: Run, served: SmallCluster) -> Run:
    """Run a command against the served cluster."""

    def call(*arguments: str, stdin: bytes = b"") -> Ran:
        patience = () if "--timeout" in arguments else ("--timeout", "3")
        return run(*arguments, "--bootstrap-server", f"127.0.0.1:{served.ports[1]}", *patience, stdin=stdin)

    return call
