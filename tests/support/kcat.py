"""Debian's kcat: run to its end, and as a producer of lines."""

import shutil
import subprocess
from pathlib import Path

_TIMEOUT_SECONDS = 110.0


class KcatFailed(Exception):
    """kcat ended with another status than 0. Carries its words."""


def is_installed() -> bool:
    return shutil.which("kcat") is not None


def kcat(*arguments: str, standard_input: bytes = b"") -> bytes:
    """Run kcat to its end and return what it wrote."""
    result = subprocess.run(
        ["kcat", *arguments], input=standard_input, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    if result.returncode != 0:
        raise KcatFailed(f"kcat {' '.join(arguments)}: {result.stderr.decode(errors='replace')}")
    return result.stdout


def produce_lines(
    bootstrap: str, topic: str, lines: Path, *, codec: str = "none", key_delimiter: str | None = None
) -> None:
    """Send each line of a file as a message, in order; with a delimiter what stands before it is the key."""
    keyed = ["-K", key_delimiter] if key_delimiter else []
    kcat("-P", "-b", bootstrap, "-t", topic, "-z", codec, *keyed, "-X", "acks=all", "-l", str(lines))
