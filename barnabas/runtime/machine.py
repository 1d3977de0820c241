"""What a process can know of the machine it runs on."""

from typing import Final

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """Which start of the machine this is; empty where the kernel does not tell."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
