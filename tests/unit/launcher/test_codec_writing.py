"""The codecs that stand in a module are those that the schema compiler would make, and are the ones in use."""

from pathlib import Path

import pytest

from barnabas.launcher import codec_writing
from barnabas.protocol import written_codecs
from barnabas.protocol.compiler import decoder, encoder
from barnabas.protocol.frames import response_framer
from barnabas.protocol.messages import fetch, produce
from barnabas.protocol.schema import Api
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


@pytest.mark.parametrize(("api", "first", "older"), [(produce.API, 3, []), (fetch.API, 4, [NEWEST_FETCH_VERSION])])
def test_what_carries_batches_goes_through_it(api: Api, first: int, older: list[int]) -> None:
    newest = api.versions[-1]
    for version in range(first, newest + 1):
        assert decoder(api.request, version) is DECODERS[api.request, version]
        assert response_framer(api.key, version) is FRAMERS[api.response, version]
    for version in (*older, newest):
        assert encoder(api.request, version) is ENCODERS[api.request, version]
        assert decoder(api.response, version) is DECODERS[api.response, version]
    assert (api.request, first - 1) not in DECODERS
