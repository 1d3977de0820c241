"""The offset map and the hashes of keys against a dictionary of the keys themselves."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.cleaning.key_hash import Hashes, KeyHash
from barnabas.storage.cleaning.offset_map import SLOT_BYTES, OffsetMap

SECRET = b"a secret of a cleaning, 32 bytes"


def hashes_of(keys: list[bytes], secret: bytes = SECRET) -> Hashes:
    data = b"prefix" + b"".join(keys)
    sizes = np.array([len(key) for key in keys], np.int64)
    ends = np.cumsum(sizes) + len(b"prefix")
    return KeyHash(secret).of(np.frombuffer(data, np.uint8), ends - sizes, sizes)


def pairs(hashes: Hashes) -> list[tuple[int, int]]:
    return list(zip(hashes[0].tolist(), hashes[1].tolist(), strict=True))


@given(st.lists(st.binary(max_size=300), min_size=1, unique=True, max_size=40), st.data())
def test_a_hash_is_that_of_the_key_wherever_it_lies(keys: list[bytes], data: st.DataObject) -> None:
    found = dict(zip(keys, pairs(hashes_of(keys)), strict=True))
    assert len(set(found.values())) == len(keys)
    again = data.draw(st.lists(st.sampled_from(keys), min_size=1))
    assert pairs(hashes_of(again)) == [found[key] for key in again]


def test_keys_that_differ_in_their_end_or_in_zeros_have_other_hashes() -> None:
    keys = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0\0", b"a\0\0\0\0", b"\0a", b"\0\0\0\0a", bytes(256), bytes(257)]
    assert len(set(pairs(hashes_of(keys)))) == len(keys)


def test_another_secret_gives_other_hashes() -> None:
    keys = [b"a", b"b" * 300]
    assert not set(pairs(hashes_of(keys))) & set(pairs(hashes_of(keys, SECRET[::-1])))


@given(st.lists(st.lists(st.integers(0, 30), max_size=25), max_size=12), st.integers(1, 40))
def test_the_map_is_a_dictionary_that_stops_when_it_is_full(chunks: list[list[int]], capacity: int) -> None:
    offset_map = OffsetMap(max_bytes=SLOT_BYTES * 10_000, load_factor=0.9, expected_keys=capacity)
    expected: dict[bytes, int] = {}
    offset = 0
    for chunk in chunks:
        keys = [b"key %d" % n for n in chunk]
        offsets = np.arange(offset, offset + len(keys), dtype=np.int64)
        taken = offset_map.insert(hashes_of(keys), offsets)
        fits = 0
        for key in keys:
            if key not in expected and len(expected) == capacity:
                break
            expected[key] = offset + fits
            fits += 1
        assert taken == fits
        offset += len(keys)
        if taken < len(keys):
            break
    assert len(offset_map) == len(expected) <= capacity
    every = [b"key %d" % n for n in range(31)]
    assert offset_map.find(hashes_of(every)).tolist() == [expected.get(key, -1) for key in every]


def test_a_full_map_finds_all_of_its_keys(seed: int) -> None:
    rng = random.Random(seed)
    offset_map = OffsetMap(max_bytes=SLOT_BYTES * 5000, load_factor=0.9, expected_keys=10**9)
    assert 4400 < offset_map.capacity <= 4500
    assert offset_map.memory_bytes <= SLOT_BYTES * 5000
    keys = [rng.randbytes(16) for _ in range(6000)]
    taken = offset_map.insert(hashes_of(keys), np.arange(6000, dtype=np.int64))
    assert taken == len(offset_map) == offset_map.capacity
    assert offset_map.find(hashes_of(keys)).tolist() == [*range(taken), *[-1] * (6000 - taken)]


def test_a_map_is_no_larger_than_its_log_can_need() -> None:
    small = OffsetMap(max_bytes=1 << 30, load_factor=0.9, expected_keys=1000)
    assert small.capacity == 1000
    assert small.memory_bytes < 64 * 1024


def test_even_the_smallest_map_takes_a_key() -> None:
    tiny = OffsetMap(max_bytes=0, load_factor=0.1, expected_keys=5)
    assert tiny.capacity == 1
    assert tiny.insert(hashes_of([b"a", b"a", b"b"]), np.arange(3, dtype=np.int64)) == 2
    assert tiny.find(hashes_of([b"a", b"b"])).tolist() == [1, -1]
