"""Whether what was written before is still there: the boot record of log directories."""

import pytest

from barnabas.storage.boot_record import BootRecord


@pytest.mark.parametrize(
    ("record", "boot_id", "was_clean", "expected"),
    [
        (BootRecord("a", is_intact=True), "a", False, True),
        (BootRecord("a", is_intact=True), "b", False, False),
        (BootRecord("a", is_intact=True), "b", True, True),
        (BootRecord("", is_intact=True), "", False, False),
        (BootRecord("", is_intact=True), "", True, True),
        (BootRecord("a", is_intact=False), "a", False, False),
        (BootRecord("a", is_intact=False), "a", True, False),
    ],
)
def test_a_record_vouches_for_a_machine_that_stayed_up_or_a_clean_stop(
    record: BootRecord, boot_id: str, *, was_clean: bool, expected: bool
) -> None:
    assert record.vouches_for(boot_id, was_clean=was_clean) is expected
    assert BootRecord.decode(record.encode()) == record


@pytest.mark.parametrize("data", [b"", b"a", b"a perhaps\n", b"\xff\x00"])
def test_what_cannot_be_read_vouches_for_nothing(data: bytes) -> None:
    assert not BootRecord.decode(data).vouches_for("a", was_clean=True)
