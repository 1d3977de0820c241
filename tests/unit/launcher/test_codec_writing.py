"""The codecs that stand in a module are those that the schema compiler would make, and are the ones in use."""

from pathlib import Path

import pytest

from barnabas.launcher import codec_writing
from barnabas.protocol import written_codecs
from barnabas.protocol.compiler import decoder, encoder
from barnabas.protocol.frames import response_framer
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.written_codecs import DECODERS, ENCODERS, FRAMERS
from replication.fetcher import NEWEST_FETCH_VERSION


def test_what_stands_there_is_what_messages_say() -> None:
    written = codec_writing.PATH.read_text()
    assert written == codec_writing.written_text(), "python -m barnabas.launcher.codec_writing"


def test_it_is_written_where_it_is_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Compiled, the module is another file there.
    assert Path(written_codecs.__file__ or "").name.startswith(codec_writing.PATH.stem + ".")
    assert Path(written_codecs.__file__ or "").parent == codec_writing.PATH.parent
    monkeypatch.setattr(codec_writing, "PATH", tmp_path / "written.py")
    assert codec_writing.main([]) == 0
    compile((tmp_path / "written.py").read_text(), "written.py", "exec")
    with pytest.raises(SystemExit):
        codec_writing.main(["--elsewhere"])


@pytest.mark.parametrize(
    ("request_class", "response_class", "key", "versions", "asked"),
    [
        (ProduceRequest, ProduceResponse, 0, range(3, 9), [8]),
        (FetchRequest, FetchResponse, 1, range(4, 13), [NEWEST_FETCH_VERSION, 12]),
    ],
)
def test_what_carries_batches_goes_through_it(
    request_class: type[object], response_class: type[object], key: int, versions: range, asked: list[int]
) -> None:
    for version in versions:
        assert decoder(request_class, version) is DECODERS[request_class, version]
        assert response_framer(key, version) is FRAMERS[response_class, version]
    for version in asked:
        assert encoder(request_class, version) is ENCODERS[request_class, version]
        assert decoder(response_class, version) is DECODERS[response_class, version]
    assert (request_class, versions[0] - 1) not in DECODERS
