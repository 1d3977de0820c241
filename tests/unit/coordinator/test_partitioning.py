from barnabas.coordinator.partitioning import coordinator_partition, java_hash


def test_a_hash_is_javas_over_utf16_units() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("my-group") == -1906497762
    # U+1F600 is the two units D83D DE00.
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_the_least_int_falls_to_the_first_partition() -> None:
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert coordinator_partition("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_by_its_size() -> None:
    assert java_hash("my-group") == -1906497762
    assert coordinator_partition("my-group", 50) == 1906497762 % 50
