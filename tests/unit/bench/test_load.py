"""How a load that asks for everything once is shared out."""

import socket
import threading
from pathlib import Path

from bench.load import Endpoint, run, shared_out
from bench.side_by_side.rows.volume import _served_bare


def test_connections_share_requests_out_as_runs_of_neighbours() -> None:
    requests = [bytes([number]) for number in range(10)]
    parts = shared_out(Endpoint("127.0.0.1", 1, 4, requests))
    assert [part.connections for part in parts] == [1, 1, 1, 1]
    assert b"".join(b"".join(part.requests) for part in parts) == bytes(range(10))
    assert len(shared_out(Endpoint("127.0.0.1", 1, 4, requests[:2]))) == 2


def test_each_request_is_sent_once() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(peer: socket.socket) -> None:
            with peer:
                while data := peer.recv(1):
                    heard.append(data)
                    peer.sendall(b"\0\0\0\1x")

        def accept() -> None:
            for _ in range(3):
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1], 3, [bytes([number]) for number in range(7)])
        told = run([endpoint], window=2, once=True)
        accepting.join()
    assert told["answers"] == 7
    assert sorted(heard) == [bytes([number]) for number in range(7)]


def test_the_bare_loop_serves_a_file_with_either_buffer(tmp_path: Path) -> None:
    file = tmp_path / "segment.log"
    file.write_bytes(bytes(5_000_000))
    for buffer in ((), ("102400",)):
        assert _served_bare(file, 20_000_000, *buffer) > 0
