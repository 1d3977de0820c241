"""The process of one broker: configuration, logs, signals, the loop, and the ends of the process.

Most of a start's time goes into loading modules. This one imports what the configuration and the ZooKeeper session
need; the rest is loaded while ZooKeeper makes the session.

Exit status: 0 after a stop that was asked for, 1 when the start failed (configuration, a taken address, a broker id
that is in use, no ZooKeeper), 70 when a task that owns state failed or the loop hung.
"""

import asyncio
import gc
import importlib
import logging
import os
import platform
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import uvloop

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.machine import raise_descriptor_limit, read_boot_id
from barnabas.runtime.memory import keep_freed_memory
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.tasks import LoopMonitor, Supervisor, Watchdog
from broker.config import BrokerConfig, parse_properties, resolve_broker_config
from broker.config_keys import BROKER_KEYS
from broker.config_keys.key import ConfigError
from broker.environment import read_environment
from broker.zookeeper_session import open_zookeeper

if TYPE_CHECKING:
    from broker.serve import Broker
    from zk_schema.session import KazooSession

log = logging.getLogger("broker")

EXIT_START_FAILED: Final = 1
EXIT_FATAL: Final = 70
_COLLECT_AFTER_OBJECTS: Final = 20_000
_SETTLE_AFTER_S: Final = 1.0
_REST: Final = ("broker.serve", "broker.system_ports")


class OneLineFormatter(logging.Formatter):
    """Writes a message as one line of printable text: peers choose names that stand in it. Tracebacks stay whole."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        text = super().formatMessage(record)
        if text.isprintable():
            return text
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def run(config_file: str | None, overrides: Mapping[str, str], environment: Mapping[str, str] | None = None) -> int:
    """Run a broker until it is told to stop; the process's exit status.

    Of a key that is set in several places, `overrides` goes before `environment` and that before the file.
    """
    if not __debug__:
        sys.stderr.write("python -O switches assertions off, which guard the data: start without it\n")
        return EXIT_START_FAILED
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(OneLineFormatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # kazoo reports each attempt to connect; the session says what matters.
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    try:
        config = read_config(config_file, overrides, environment)
    except (OSError, ConfigError) as error:
        log.critical("cannot start: %s", error)
        return EXIT_START_FAILED
    for warning in config.warnings:
        log.warning("%s", warning)
    raise_descriptor_limit()
    keep_freed_memory()
    return uvloop.run(_run(config))


def read_config(
    path: str | None, overrides: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> BrokerConfig:
    """The configuration of a properties file, under environment variables, under overrides.

    Raises:
        OSError: the file cannot be read.
        ConfigError: what is set cannot be.
    """
    given: dict[str, str] = {}
    origins: dict[str, str] = {}
    if path is not None:
        with open(path, "rb") as file:
            given.update(parse_properties(file.read()))
        origins.update(dict.fromkeys(given, path))
    if environment is not None:
        variables = read_environment(environment)
        given.update(variables.given)
        origins.update(variables.origins)
        if variables.ignored:
            log.warning("%s: set for a Java process; no effect here", ", ".join(variables.ignored))
    given.update(overrides)
    origins.update(dict.fromkeys(overrides, "override"))
    if environment is not None:
        # Who configures a container sees its log, and not the file that it makes up.
        for key in sorted(given):
            log.info("%s=%s (%s)", key, _shown(key, given[key]), origins[key])
    return resolve_broker_config(given, host_name=socket.getfqdn())


def _shown(name: str, text: str) -> str:
    """The text of a key, unless it is a secret; a key that nobody knows may be one."""
    key = BROKER_KEYS.get(name)
    return "[hidden]" if key is None or key.is_sensitive else text


def load_modules() -> None:
    """Load the rest of the broker. In a thread: the loop is there for the session meanwhile, and for signals.

    What the modules make stays, and is not to be looked at again and again. From then on collections come seldom: a
    request's objects go when it is answered; what the collector is for are cycles, which are rare. With Python's own
    threshold a few requests in flight are enough to make it look.
    """
    # Classes leave young garbage behind; only the old are never looked at.
    gc.set_threshold(2_000, 10, 1_000)
    for name in _REST:
        importlib.import_module(name)
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 50, 100)


async def settle_memory() -> None:
    """Collect what the start left behind when the first clients have been served; what stays is not looked at again."""
    await asyncio.sleep(_SETTLE_AFTER_S)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _kind_of(module: str) -> str:
    """Whether that module, which is loaded, runs compiled (pyproject.toml says which may) or interpreted."""
    return "interpreted" if str(sys.modules[module].__file__).endswith(".py") else "compiled"


def end_process(what: str, error: BaseException | None) -> None:
    """State is no longer kept true: end at once, without touching anything more."""
    log.critical("%s failed: ending the process", what, exc_info=error)
    logging.shutdown()
    os._exit(EXIT_FATAL)


async def _run(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda _, context: end_process(str(context.get("message", "the event loop")), context.get("exception"))
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(end_process)
    offload = SystemOffload()
    starting = asyncio.ensure_future(_start(config, supervisor, offload))
    asked = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        log.info("stopped before the start was complete")
        return 0
    broker = starting.result()
    if broker is None:
        asked.cancel()
        await supervisor.stop()
        return EXIT_START_FAILED
    watchdog = _watch(supervisor, broker, limit_ms=config.zookeeper_session_timeout_ms)
    supervisor.spawn(settle_memory(), name="settling of memory")
    await asked
    log.info("[KafkaServer id=%d] stopping", broker.broker_id)
    watchdog.stop()
    await broker.stop()
    await supervisor.stop()
    offload.close()
    log.info("[KafkaServer id=%d] stopped", broker.broker_id)
    return 0


async def _start(config: BrokerConfig, supervisor: Supervisor, offload: SystemOffload) -> "Broker | None":
    """Start the broker; None when it cannot, which the log then tells."""
    opening = asyncio.ensure_future(open_zookeeper(config))
    try:
        await offload.thread("loading", load_modules)
        log.info("Python %s, way of records %s", platform.python_version(), _kind_of("broker.connection"))
    except asyncio.CancelledError:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        raise
    from broker.serve import Ports, StartFailed, serve  # noqa: PLC0415 - see the module
    from broker.system_ports import open_control_plane, open_network  # noqa: PLC0415

    async def opened(config: BrokerConfig) -> "KazooSession":  # noqa: ARG001 - as the port has it
        return await opening

    ports = Ports(
        clock=SystemClock(),
        disk=SystemDisk(),
        offload=offload,
        supervisor=supervisor,
        random=random.Random(),
        open_network=open_network,
        open_zookeeper=opened,
        open_control_plane=open_control_plane,
        boot_id=read_boot_id(),
    )
    try:
        return await serve(ports, config)
    except StartFailed as error:
        log.critical("cannot start: %s", error)
        return None


def _watch(supervisor: Supervisor, broker: "Broker", *, limit_ms: int) -> Watchdog:
    monitor = LoopMonitor(broker.services.metrics.observe_loop_lag)
    supervisor.spawn(monitor.run(), name="loop monitor")
    watchdog = Watchdog(monitor, lambda: os._exit(EXIT_FATAL), limit_ms=limit_ms)
    watchdog.start()
    return watchdog


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m broker.main FILE [key=value ...]`; `barnabas broker` is the same with options."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or not all("=" in text for text in given[1:]):
        sys.stderr.write("usage: python -m broker.main FILE [key=value ...]\n")
        return 2
    return run(given[0], dict(text.split("=", 1) for text in given[1:]))


if __name__ == "__main__":
    sys.exit(main())
