"""The compiled codecs on schemas of their own: bytes, lengths, nulls, tags and what a version cannot say."""

import linecache
import traceback
from typing import Any

import pytest

from barnabas.protocol.compiler import decode, decode_whole, decoder, encode, encode_parts
from barnabas.protocol.messages import metadata, produce
from barnabas.protocol.primitives import (
    F64,
    I8,
    I16,
    I32,
    I64,
    Bool,
    Bytes,
    InvalidLength,
    InvalidText,
    InvalidVarint,
    NullableBytes,
    NullableStr,
    Records,
    Str,
    TrailingBytes,
    TruncatedMessage,
    UnrepresentableField,
    WireError,
    uvarint,
)
from barnabas.protocol.schema import field, message, struct


@struct
class Point:
    x: I16 = 0
    label: NullableStr = None


@message(versions=(0, 1), flexible=1)
class Everything:
    tiny: I8 = 0
    small: I16 = 0
    wide: I64 = 0
    yes: Bool = False
    ratio: F64 = 0.0
    text: Str = ""
    blob: Bytes = b""
    maybe: NullableBytes = None
    numbers: list[I32] = field(default_factory=list)
    names: list[Str] = field(default_factory=list)
    points: list[Point] | None = field(default_factory=list)
    point: Point = field(default_factory=Point)


@message(versions=(0, 3), flexible=2)
class Versioned:
    old: I32 = field(default=-1, until=0, ignorable=True)
    kept: I32 = 0
    strict: I32 = field(default=-1, since=1)
    topics: list[Str] | None = field(default_factory=list, nullable_since=1)
    name: NullableStr = field(default="", nullable_since=1)
    hint: NullableStr = field(default=None, since=2, tag=0)
    epoch: I64 = field(default=-1, since=2, tag=1, ignorable=True)
    place: Point = field(default_factory=Point, since=2, tag=130)


@struct
class Chunk:
    index: I32 = 0
    records: Records = None


@message(versions=(0, 1), flexible=1)
class Chunks:
    chunks: list[Chunk] = field(default_factory=list)
    end: I8 = 7


POINTS: list[Point] | None = [Point(9, None), Point(8, "l")]
FULL = Everything(1, -2, 3, True, 0.5, "h\u00e9", b"\x01\x02", None, [1, -1], ["", "b"], POINTS, Point(7, "p"))


def test_classic_bytes_are_those_of_the_protocol_guide() -> None:
    assert encode(FULL, 0).hex(" ") == (
        "01 ff fe 00 00 00 00 00 00 00 03 01 3f e0 00 00 00 00 00 00 00 03 68 c3 a9 00 00 00 02 01 02 ff ff ff ff "
        "00 00 00 02 00 00 00 01 ff ff ff ff 00 00 00 02 00 00 00 01 62 "
        "00 00 00 02 00 09 ff ff 00 08 00 01 6c 00 07 00 01 70"
    )
    assert decode_whole(Everything, 0, encode(FULL, 0)) == FULL


def test_flexible_bytes_are_those_of_the_protocol_guide() -> None:
    assert encode(FULL, 1).hex(" ") == (
        "01 ff fe 00 00 00 00 00 00 00 03 01 3f e0 00 00 00 00 00 00 04 68 c3 a9 03 01 02 00 "
        "03 00 00 00 01 ff ff ff ff 03 01 02 62 03 00 09 00 00 00 08 02 6c 00 00 07 02 70 00 00"
    )
    assert decode_whole(Everything, 1, encode(FULL, 1)) == FULL


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 16382, 16383, 20000, 32767])
def test_lengths_take_as_many_bytes_as_they_need(size: int) -> None:
    sent = Everything(text="t" * size, blob=b"b" * size, maybe=b"m" * size, numbers=[5] * size, names=["n"] * size)
    for version in (0, 1):
        assert decode_whole(Everything, version, memoryview(encode(sent, version))) == sent
    assert encode(Everything(text="t" * size), 1)[20:].startswith(uvarint(size + 1) + b"t" * size)


def test_a_string_beyond_the_limit_is_refused_both_ways() -> None:
    for version in (0, 1):
        with pytest.raises(UnrepresentableField):
            encode(Everything(text="t" * 32768), version)
    too_long = encode(Everything(), 1)[:20] + uvarint(32769) + b"t" * 32768
    with pytest.raises(InvalidLength):
        decode(Everything, 1, too_long)


def test_a_value_that_does_not_fit_its_type_is_refused() -> None:
    with pytest.raises(UnrepresentableField, match="Everything v0"):
        encode(Everything(small=40000), 0)


def test_a_field_that_the_version_lacks_is_its_default_when_decoded() -> None:
    assert decode_whole(Versioned, 0, encode(Versioned(old=4, kept=5), 0)) == Versioned(old=4, kept=5)
    assert decode_whole(Versioned, 1, encode(Versioned(old=4, kept=5, strict=6), 1)) == Versioned(kept=5, strict=6)


@pytest.mark.parametrize(
    "set_too_early",
    [
        Versioned(strict=3),
        Versioned(hint=""),
        Versioned(hint="h"),
        Versioned(place=Point(1)),
        Versioned(place=Point(0, "")),
    ],
)
def test_a_value_that_the_version_lacks_is_refused_unless_it_is_ignorable(set_too_early: Versioned) -> None:
    with pytest.raises(UnrepresentableField, match="version 0 has no such field"):
        encode(set_too_early, 0)
    assert encode(Versioned(epoch=9), 0) == encode(Versioned(), 0)


def test_null_needs_a_version_that_allows_it() -> None:
    for sent in (Versioned(topics=None), Versioned(name=None)):
        for version in (1, 2):
            assert decode_whole(Versioned, version, encode(sent, version)) == sent
        with pytest.raises(UnrepresentableField, match="null"):
            encode(sent, 0)
    with pytest.raises(InvalidLength):
        decode(Versioned, 0, bytes.fromhex("00000000 00000000 ffffffff 0000"))
    with pytest.raises(InvalidLength):
        decode(Versioned, 0, bytes.fromhex("00000000 00000000 00000000 ffff"))


def test_known_tags_are_written_in_order_and_only_when_set() -> None:
    start = encode(Versioned(), 2)
    assert start.hex(" ") == "00 00 00 00 ff ff ff ff 01 01 00"
    tagged = Versioned(hint="h", epoch=2, place=Point(3, "p"))
    assert encode(tagged, 2)[10:].hex(" ") == ("03 00 02 02 68 01 08 00 00 00 00 00 00 00 02 82 01 05 00 03 02 70 00")
    assert decode_whole(Versioned, 2, encode(tagged, 2)) == tagged


def test_unknown_tags_are_skipped_and_dropped() -> None:
    plain, known = encode(Versioned(), 3)[:-1], b"\x01\x08" + bytes(7) + b"\x05"
    unknown = uvarint(77) + uvarint(200) + b"u" * 200
    assert decode_whole(Versioned, 3, plain + b"\x02" + known + unknown) == Versioned(epoch=5)
    assert decode_whole(Everything, 1, encode(FULL, 1)[:-1] + b"\x01" + unknown) == FULL
    many = b"".join(uvarint(tag) + b"\x01x" for tag in range(1000, 1300))
    assert decode_whole(Everything, 1, encode(FULL, 1)[:-1] + uvarint(300) + many) == FULL


@pytest.mark.parametrize(
    ("tags", "error"),
    [
        ("01 01 07 0000000000000005", InvalidLength),
        ("01 01 09 000000000000000500", InvalidLength),
        ("01 4d 7f 00", TruncatedMessage),
        ("01 4d ffffffff0f 00", TruncatedMessage),
        ("ffffffff0f 4d 00", TruncatedMessage),
        ("ffffffffff 4d 00", InvalidVarint),
        ("01 00 03 01ff", TruncatedMessage),
        ("01 00 02 02ff", InvalidText),
    ],
)
def test_bad_tags_are_refused(tags: str, error: type[WireError]) -> None:
    with pytest.raises(error):
        decode(Versioned, 2, encode(Versioned(), 2)[:-1] + bytes.fromhex(tags))


@pytest.mark.parametrize("tags", ["01", "01 4d", "01 4d 02 00", "02 4d 01 00", "02 4d 00 4e 01", "ffffffff0f 4d 00"])
def test_unknown_tags_that_are_cut_off_are_refused(tags: str) -> None:
    for cls, version in ((Everything, 1), (Versioned, 2)):
        with pytest.raises(TruncatedMessage):
            decode(cls, version, encode(cls(), version)[:-1] + bytes.fromhex(tags))


@pytest.mark.parametrize(
    ("version", "cut", "lies", "error"),
    [
        (0, 20, "ffff", InvalidLength),  # a string of -1 bytes
        (0, 20, "8000", InvalidLength),
        (0, 20, "7fff", TruncatedMessage),
        (0, 22, "ffffffff", InvalidLength),  # a byte string of -1 bytes
        (0, 22, "7fffffff", TruncatedMessage),
        (0, 26, "fffffffe", InvalidLength),  # a nullable byte string of -2 bytes
        (0, 30, "ffffffff", InvalidLength),  # an array of -1 integers
        (0, 30, "7fffffff", TruncatedMessage),
        (0, 34, "7fffffff", TruncatedMessage),  # an array of strings
        (0, 38, "7fffffff", TruncatedMessage),  # an array of structs
        (0, 38, "80000000", InvalidLength),
        (1, 20, "00", InvalidLength),  # null where none may be
        (1, 20, "ffffffffff01", InvalidVarint),
        (1, 20, "ffffffff0f", InvalidLength),
        (1, 20, "fe01", TruncatedMessage),
        (1, 21, "ffffffff0f", TruncatedMessage),
        (1, 23, "ffffffff0f", TruncatedMessage),
        (1, 24, "ffffffff0f", TruncatedMessage),
        (1, 25, "ffffffff0f", TruncatedMessage),
        (1, 25, "80808080808080808001", InvalidVarint),
    ],
)
def test_a_lying_length_is_refused(version: int, cut: int, lies: str, error: type[WireError]) -> None:
    with pytest.raises(error):
        decode(Everything, version, encode(Everything(), version)[:cut] + bytes.fromhex(lies) + bytes(40))


def test_text_that_is_no_utf_8_is_refused_both_ways() -> None:
    for version, length in ((0, b"\x00\x02"), (1, b"\x03")):
        with pytest.raises(InvalidText, match=f"Everything v{version}"):
            decode(Everything, version, encode(Everything(), version)[:20] + length + b"\xc3\x28" + bytes(40))
        with pytest.raises(InvalidText):
            encode(Everything(text="\ud800"), version)


def test_record_sets_are_views_over_the_frame() -> None:
    sent = Chunks([Chunk(1, b"abc"), Chunk(2, None), Chunk(3, b"")])
    for version in (0, 1):
        frame = bytearray(encode(sent, version))
        decoded = decode_whole(Chunks, version, frame)
        first, second, third = (chunk.records for chunk in decoded.chunks)
        assert isinstance(first, memoryview)
        assert (second, third) == (None, b"")
        frame[frame.index(b"abc")] = ord("z")
        assert first == b"zbc"


class Stretch:
    """Stands for a stretch of a file."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


def test_record_sets_stay_pieces_of_their_own() -> None:
    stretch, view = Stretch(1000), memoryview(b"view")
    sent = Chunks([Chunk(1, stretch), Chunk(2, None), Chunk(3, Stretch(0)), Chunk(4, view)])
    head, first, between, second, tail = encode_parts(sent, 0, first=b"header")
    assert head == b"header" + bytes.fromhex("00000004 00000001 000003e8")
    assert first is stretch
    assert between == bytes.fromhex("00000002 ffffffff 00000003 00000000 00000004 00000004")
    assert second is view
    assert tail == b"\x07"
    assert encode_parts(sent, 1)[0] == bytes.fromhex("05 00000001 e907")


def test_a_message_without_record_sets_is_one_piece() -> None:
    assert encode_parts(Versioned(), 0, first=b"head") == [b"head" + encode(Versioned(), 0)]


def test_bytes_behind_a_message_are_told() -> None:
    encoded = encode(Versioned(), 0)
    assert decode(Versioned, 0, b"??" + encoded + b"rest", 2) == (Versioned(), 2 + len(encoded))
    with pytest.raises(TrailingBytes):
        decode_whole(Versioned, 0, encoded + b"r")


def test_a_version_that_the_class_does_not_declare_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="no version 4"):
        decode(Versioned, 4, b"")
    with pytest.raises(AssertionError, match="no version -1"):
        encode(Versioned(), -1)


def test_a_class_is_compiled_once_per_version() -> None:
    assert decoder(Versioned, 0) is decoder(Versioned, 0)
    assert decoder(Versioned, 0) is not decoder(Versioned, 1)


def test_a_traceback_shows_the_compiled_line() -> None:
    broken: Any = Versioned(topics=5)  # type: ignore[arg-type]
    try:
        encode(broken, 0)
    except TypeError as error:
        shown = "".join(traceback.format_exception(error))
    assert 'File "<encoder of Versioned v0>"' in shown
    assert "len(topics_" in shown
    assert "unpack" in "".join(linecache.getlines("<decoder of Versioned v0>"))


def test_counts_are_held_against_the_least_size_of_an_item() -> None:
    """Forty bytes remain: ten int32 fit, eleven do not, and that is known before any is read."""
    start = encode(Everything(), 0)[:30]
    with pytest.raises(TruncatedMessage, match=r"length 11 with 40 bytes left"):
        decode(Everything, 0, start + (11).to_bytes(4, "big") + bytes(40))
    with pytest.raises(TruncatedMessage, match=r"items of Everything.names: length 21 with 40 bytes left"):
        decode(Everything, 0, start + bytes(4) + (21).to_bytes(4, "big") + bytes(40))
    with pytest.raises(TruncatedMessage, match=r"items of Everything.points: length 11 with 40 bytes left"):
        decode(Everything, 0, start + bytes(8) + (11).to_bytes(4, "big") + bytes(40))
    flexible = encode(Everything(), 1)[:23]
    with pytest.raises(TruncatedMessage, match=r"items of Everything.points: length 11 with 40 bytes left"):
        decode(Everything, 1, flexible + bytes.fromhex("01 01 0c") + bytes(40))
    assert decode(Everything, 1, flexible + bytes.fromhex("01 01 0b") + bytes(45))[0].points == [Point()] * 10


def test_the_items_of_all_arrays_together_are_held_against_the_budget() -> None:
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")] * 10)
    data = encode(request, 4)
    assert decoder(metadata.MetadataRequest, 4)(data, 0, 10)[0] == request
    with pytest.raises(InvalidLength, match="more items"):
        decoder(metadata.MetadataRequest, 4)(data, 0, 9)
    nested = produce.ProduceRequest(
        topics=[produce.TopicProduceData(name="t", partitions=[produce.PartitionProduceData()] * 3)] * 4
    )
    data = encode(nested, 7)
    assert decoder(produce.ProduceRequest, 7)(data, 0, 16)[0] == nested
    with pytest.raises(InvalidLength, match="more items"):
        decoder(produce.ProduceRequest, 7)(data, 0, 15)
