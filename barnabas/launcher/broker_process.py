"""One broker of a local cluster as a process: its configuration file, its command, and whether it serves."""

import contextlib
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.launcher.compiled import packages_root
from barnabas.launcher.processes import LocalProcess
from barnabas.launcher.sockets import address, reachable, receive
from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.frames import decode_response_header, encode_request_header
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.primitives import WireError
from barnabas.runtime.packages import environment_with

SESSION_TIMEOUT_MS: Final = 6_000
"""Of a local cluster's brokers: a killed one can come back after this, and not after Kafka's 18 s."""

_CORRELATION_ID: Final = 1
_MAX_RESPONSE_BYTES: Final = 1 << 20


def broker_directory(directory: Path, broker_id: int) -> Path:
    """Where a broker of the cluster in `directory` has its files."""
    return directory / f"broker-{broker_id}"


def log_directory(directory: Path, broker_id: int) -> Path:
    """Where a broker has its partitions, unless its properties say otherwise."""
    return broker_directory(directory, broker_id) / "logs"


def broker_log_file(directory: Path, broker_id: int) -> Path:
    """What a broker says."""
    return broker_directory(directory, broker_id) / "broker.log"


def broker_properties(
    directory: Path, broker_id: int, *, host: str, port: int, zookeeper: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The keys of a broker's server.properties."""
    properties = {
        "broker.id": str(broker_id),
        "listeners": f"PLAINTEXT://{address(host, port)}",
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "log.dirs": str(log_directory(directory, broker_id)),
    }
    if host != reachable(host):
        # Clients connect to what is advertised, and nobody can connect to "any address".
        properties["advertised.listeners"] = f"PLAINTEXT://{socket.getfqdn()}:{port}"
    return {**properties, **overrides}


def start_broker(
    directory: Path, broker_id: int, properties: Mapping[str, str], *, root: Path | None = None
) -> LocalProcess:
    """Write the configuration file and start the process, which takes our packages from `root` or `packages_root`."""
    own = broker_directory(directory, broker_id)
    own.mkdir(parents=True, exist_ok=True)
    config = own / "server.properties"
    lines = "".join(f"{key}={escape(value)}\n" for key, value in properties.items())
    config.write_text(f"# Written by `barnabas up` at each start.\n{lines}", encoding="ascii")
    return LocalProcess(
        [sys.executable, "-P", "-m", "broker.main", str(config)],
        log_file=broker_log_file(directory, broker_id),
        # A checkout that is not installed works as well: the broker's packages are found where ours are, or compiled.
        environment=environment_with(root or packages_root()),
    )


def escape(value: str) -> str:
    """A value as a Java properties file holds it: ASCII, with UTF-16 units for the rest."""
    units = struct.iter_unpack(">H", value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass"))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for (unit,) in units)


def answers_api_versions(host: str, port: int, *, timeout_s: float = 2.0) -> bool:
    """Whether a broker there serves requests: it answers ApiVersions without an error."""
    header = encode_request_header(ApiKey.API_VERSIONS, 0, _CORRELATION_ID, "barnabas-launcher")
    request = header + encode(ApiVersionsRequest(), 0)
    try:
        with contextlib.closing(socket.create_connection((reachable(host), port), timeout_s)) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (length,) = struct.unpack(">i", receive(connection, 4))
            if not 0 < length <= _MAX_RESPONSE_BYTES:
                return False
            answer = receive(connection, length)
        correlation_id, position = decode_response_header(ApiKey.API_VERSIONS, 0, answer)
        response, _ = decode(ApiVersionsResponse, 0, answer, position)
    except (OSError, WireError):
        return False
    return correlation_id == _CORRELATION_ID and response.error_code == 0
