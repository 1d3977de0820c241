"""What a process can know of the machine it runs on, and take of it."""

import contextlib
import resource
from typing import Final

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """Which start of the machine this is; empty where the kernel does not tell."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def raise_descriptor_limit() -> None:
    """Take as many file descriptors as the system gives: segments and connections need them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
