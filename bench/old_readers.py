"""What consumers of Kafka 0.8 cost the others: records of 100 bytes converted down while somebody else produces.

`python -m bench.old_readers [--seconds 5] [--readers N] [--codec NAME] [--version 1]`. One broker; a
partition is filled with batches of 100 records; so many connections read it from its start, over and over,
by Fetch of an old version, 1 MiB at a time, while another client produces single records to another partition, one
after the other. Printed are that client's latencies, first without readers, and what the readers got.
"""

import argparse
import socket
import struct
import threading
import time
from collections.abc import Sequence

from barnabas.launcher.sockets import receive
from barnabas.protocol.batch import Codec
from barnabas.protocol.records import Record, build_batch
from bench import systems
from bench.frames import produce
from tests.compatibility import old_wire

_RECORDS_A_BATCH = 100
_BATCHES = 1_000
_READ_BYTES = 1 << 20


class _Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        """Send what has its size already; the answer without its own."""
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", receive(self._socket, 4))
        return receive(self._socket, size)


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _fill(port: int, codec: Codec) -> int:
    """Write the batches; the offset behind the last."""
    connection = _Connection(port)
    records = [Record(0, 1_700_000_000_000, None, b"%010d" % number * 10) for number in range(_RECORDS_A_BATCH)]
    frame = _sized(_produce(build_batch(records, codec=codec)))
    for _ in range(_BATCHES):
        connection.ask(frame)
    return _BATCHES * _RECORDS_A_BATCH


def _produce(batch: bytes) -> bytes:
    request = old_wire.produce(7, batch)
    name = len(old_wire.TOPIC).to_bytes(2, "big") + old_wire.TOPIC.encode()
    return request.replace(name, len(systems.TOPIC).to_bytes(2, "big") + systems.TOPIC.encode(), 1)


class _Reader(threading.Thread):
    """Reads from the start to the end, and again, until it is stopped."""

    def __init__(self, port: int, end_offset: int, version: int) -> None:
        super().__init__(daemon=True)
        self._connection = _Connection(port)
        self._end_offset = end_offset
        self._version = version
        self.stopped = False
        self.read_bytes = 0

    def run(self) -> None:
        offset = 0
        while not self.stopped:
            request = old_wire.fetch(self._version, systems.TOPIC, offset, max_bytes=_READ_BYTES)
            answer = self._connection.ask(_sized(request))
            self.read_bytes += len(answer)
            offset = _offset_behind(answer, 8 + 4 * (self._version >= 1)) % self._end_offset


def _offset_behind(answer: bytes, at: int) -> int:
    """The offset behind the last whole entry of the one partition of an answer."""
    at += len(systems.TOPIC) + 2 + 4 + 4 + 2 + 8 + 4
    offset = 0
    while len(answer) - at >= 12:
        entry_offset, length = struct.unpack_from(">qi", answer, at)
        if at + 12 + length > len(answer):
            break
        offset = entry_offset + 1
        at += 12 + length
    return offset


def _latencies(port: int, seconds: float) -> list[float]:
    connection = _Connection(port)
    frame = produce(systems.TOPIC, 1, records=1, record_bytes=100).frame
    found = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        started = time.perf_counter()
        connection.ask(frame)
        found.append((time.perf_counter() - started) * 1000)
        time.sleep(0.001)
    return sorted(found)


def _told(name: str, latencies: Sequence[float], read_bytes: float, cpu: float) -> str:
    median, late = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]
    return f"| {name} | {median:.2f} | {late:.2f} | {latencies[-1]:.1f} | {read_bytes / 1e6:.1f} | {cpu:.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--readers", type=int, action="append")
    parser.add_argument("--codec", action="append", choices=[codec.name.lower() for codec in Codec])
    parser.add_argument("--version", type=int, default=1)
    arguments = parser.parse_args()
    print("| readers | p50 ms | p99 ms | greatest ms | converted MB/s | broker CPU |\n|---|---|---|---|---|---|")
    for codec in arguments.codec or ["none", "gzip"]:
        with systems.barnabas(partitions=2, cpu=None) as system:
            end_offset = _fill(system.port, Codec[codec.upper()])
            for count in (0, *(arguments.readers or [1, 4])):
                readers = [_Reader(system.port, end_offset, arguments.version) for _ in range(count)]
                for reader in readers:
                    reader.start()
                cpu = system.cpu_seconds()
                latencies = _latencies(system.port, arguments.seconds)
                cpu = (system.cpu_seconds() - cpu) / arguments.seconds
                for reader in readers:
                    reader.stopped = True
                    reader.join()
                rate = sum(reader.read_bytes for reader in readers) / arguments.seconds
                print(_told(f"{codec}, {count}", latencies, rate, cpu), flush=True)


if __name__ == "__main__":
    main()
