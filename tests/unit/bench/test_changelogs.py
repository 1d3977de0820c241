"""Debian's changelogs as events: what is in the format is read, what is not is left out and counted."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.pipeline_demo.changelogs import Entry, NoChangelogs, Reading, changelog_files, parse, read_all

TEXT = """\
bash (5.2.15-2) unstable; urgency=medium

  * Rebuild.
  * Close a bug:
    - a detail.

 -- Matthias Klose <doko@debian.org>  Sun, 01 Jan 2023 12:36:22 +0100

bash (5.2~rc1-1+b1) experimental proposed-updates; urgency=low, binary-only=yes

  [ Somebody ]
  * A point with a signature in it: -- nobody <no@where>  today

 -- Ævar Þór <a@b.org>  Thu, 16 Jun 2022 08:00:00 -0000

# a remark
bash (0.1-1); urgency=HIGH
  * No blank lines.
 -- <nobody@example.org>  Mon, 01 Jul 1996 00:00:00 +0000
"""


def entries_of(text: str) -> tuple[list[Entry], Reading]:
    found = Reading()
    return list(parse(text.splitlines(keepends=True), "bash", found)), found


def test_entries_are_read_with_all_that_is_said_of_them() -> None:
    entries, found = entries_of(TEXT)
    assert entries == [
        Entry(
            datetime(2023, 1, 1, 11, 36, 22, tzinfo=UTC), "bash", "5.2.15-2", "Matthias Klose", "unstable", "medium", 2
        ),
        Entry(
            datetime(2022, 6, 16, 8, tzinfo=UTC),
            "bash",
            "5.2~rc1-1+b1",
            "Ævar Þór",
            "experimental proposed-updates",
            "low",
            1,
        ),
        Entry(datetime(1996, 7, 1, tzinfo=UTC), "bash", "0.1-1", "nobody@example.org", "", "high", 1),
    ]
    assert found.unsigned == 0


@pytest.mark.parametrize(
    "signature",
    [
        "",
        " -- Nobody  Sun, 01 Jan 2023 12:36:22 +0100",
        " -- Nobody <a@b>  someday",
        " -- Nobody <a@b>  Sun, 01 Jan 1023 12:36:22 +0100",
        " -- Nobody <a@b>  Sun, 41 Jan 2023 12:36:22 +0100",
    ],
)
def test_an_entry_that_is_not_signed_and_dated_is_counted_and_left_out(signature: str) -> None:
    entries, found = entries_of(f"a (1) unstable; urgency=low\n\n  * x\n\n{signature}\n\n{TEXT}")
    assert len(entries) == 3
    assert found.unsigned == 1


def test_changelogs_in_other_formats_are_left_alone() -> None:
    entries, found = entries_of(f"Version 1.2 of this\n\n{TEXT}")
    assert entries == []
    assert found.unsigned == 0


def test_an_event_is_json_with_member_and_page() -> None:
    assert json.loads(entries_of(TEXT)[0][1].to_json()) == {
        "time": "2022-06-16T08:00:00Z",
        "member": "Ævar Þór",
        "page": "bash",
        "version": "5.2~rc1-1+b1",
        "distribution": "experimental proposed-updates",
        "urgency": "low",
        "changes": 1,
    }


def test_each_package_has_its_entries_once_and_in_order(tmp_path: Path) -> None:
    for package, name, text in (
        ("bash", "changelog.Debian.gz", TEXT + TEXT),
        ("bash-doc", "changelog.gz", TEXT),
        ("other", "changelog.gz", "1.0: first release\n"),
    ):
        (tmp_path / package).mkdir()
        with gzip.open(tmp_path / package / name, "wt", encoding="utf-8") as file:
            file.write(text)
    (tmp_path / "linked").symlink_to(tmp_path / "bash")
    found = Reading()
    entries = read_all(changelog_files(tmp_path), found)
    assert [(each.time.year, each.package) for each in entries] == [
        (year, package) for year in (1996, 2022, 2023) for package in ("bash", "bash-doc")
    ]
    assert found.files == 2


def test_a_machine_without_changelogs_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoChangelogs, match=r"there are no changelogs of Debian packages under .* CHANGELOGS=folder"):
        changelog_files(tmp_path)
