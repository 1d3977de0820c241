"""Debian's changelogs as events: each entry was written by somebody at some time, about a version of a package.

    bash (5.2.15-2) unstable; urgency=medium

      * Rebuild.

     -- Matthias Klose <doko@debian.org>  Sun, 01 Jan 2023 12:36:22 +0100

The format is that of deb-changelog(5). python-debian reads it too; its licence is the GPL, and what is needed here are
two kinds of lines. Packages that are built from one source bring the same changelog, and each of them was changed: a
package is named by the folder that holds its changelog. Upstream's own changelogs, in other formats, are left alone.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/usr/share/doc")
_NAMES: Final = ("changelog.Debian.gz", "changelog.gz")
_HEAD: Final = re.compile(
    r"(?P<package>[a-z0-9][a-z0-9+.-]*) \((?P<version>[^()\s]+)\)(?P<where>[^;]*)(;(?P<keys>.*))?$", re.IGNORECASE
)
_SIGNED: Final = re.compile(r" -- (?P<member>.*?) ?<(?P<address>[^>]*)> {1,2}(?P<time>\S.*)$")
_URGENCY: Final = re.compile(r"urgency=([a-z]+)", re.IGNORECASE)


class NoChangelogs(Exception):
    """There is nothing to feed; the text says what to do."""


@dataclass(frozen=True, order=True)
class Entry:
    """Who wrote when about which version of a package; `changes` counts the points of the entry."""

    time: datetime
    package: str
    version: str
    member: str
    distribution: str
    urgency: str
    changes: int

    @property
    def time_ms(self) -> int:
        return round(self.time.timestamp() * 1000)

    def to_json(self) -> bytes:
        """The event: a maintainer is a member, a package a page."""
        event = {
            "time": self.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "member": self.member,
            "page": self.package,
            "version": self.version,
            "distribution": self.distribution,
            "urgency": self.urgency,
            "changes": self.changes,
        }
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass
class Reading:
    """What was found: files, and entries that are not signed, or whose time is none, and so are no events."""

    files: int = 0
    unsigned: int = 0


def changelog_files(folder: Path) -> list[Path]:
    """The changelogs of all packages. Raises NoChangelogs."""
    files = sorted({path.resolve() for name in _NAMES for path in folder.glob(f"*/{name}")})
    if not files:
        raise NoChangelogs(
            f"there are no changelogs of Debian packages under {folder}: small images of Debian leave them out, and "
            "other systems have none. Run this on a Debian or Ubuntu machine, or copy /usr/share/doc of one and name "
            "the copy with CHANGELOGS=folder"
        )
    return files


def read_all(files: Iterable[Path], found: Reading) -> list[Entry]:
    """All entries by their times, each once for a package. Counts into `found`."""
    entries: set[Entry] = set()
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
            of_file = list(parse(lines, path.parent.name, found))
        found.files += bool(of_file)
        entries.update(of_file)
    return sorted(entries)


def parse(lines: Iterable[str], package: str, found: Reading) -> Iterator[Entry]:
    """The entries of one changelog; nothing where it does not begin as one of Debian's."""
    head: re.Match[str] | None = None
    is_debian = False
    changes = 0
    for line in lines:
        text = line.rstrip("\n")
        if text[:1].strip():
            found.unsigned += head is not None
            head, changes = _HEAD.match(text), 0
            is_debian |= head is not None
            if not is_debian:
                return
        elif head is not None and text.startswith(" --"):
            entry = _entry(package, head, _SIGNED.match(text), changes)
            found.unsigned += entry is None
            head = None
            if entry is not None:
                yield entry
        elif text.lstrip().startswith("* "):
            changes += 1
    found.unsigned += head is not None


def _entry(package: str, head: re.Match[str], signed: re.Match[str] | None, changes: int) -> Entry | None:
    if signed is None:
        return None
    try:
        time = parsedate_to_datetime(signed["time"])
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, IndexError):
        return None
    if not datetime(1990, 1, 1, tzinfo=UTC) <= time < datetime(2100, 1, 1, tzinfo=UTC):
        return None
    urgency = _URGENCY.search(head["keys"] or "")
    return Entry(
        time.replace(microsecond=0),
        package,
        head["version"],
        signed["member"].strip() or signed["address"],
        head["where"].strip(),
        urgency[1].lower() if urgency else "",
        changes,
    )
