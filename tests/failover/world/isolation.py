"""Where a world of its own can be made on this machine: a network, mounts and processes that end with their first one.

A program in such a world sees no other network and leaves none behind: when its first process ends, the kernel ends
the rest and takes back the interfaces, rules, mounts and loop devices. As an ordinary user this needs user namespaces.
File systems on loop devices, and the ioctl that cuts their power, need the machine's real root, who needs no user
namespace for the rest. Whatever is missing is found by trying it, and the reason is what the system says.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from tests.failover.world.disks import PowerCut, cut_power

_TRY_SECONDS = 30.0
_TRY_NETWORK = """
mount -t tmpfs none /run && mkdir /run/netns &&
ip link add try0 type bridge && ip netns add try &&
ip link add try1 type veth peer name eth0 netns try &&
nsenter --net=/run/netns/try iptables -w -A INPUT -p tcp --dport 9 -s 10.77.0.1 -j DROP
"""
_PROGRAMS = ("unshare", "nsenter", "ip", "iptables", "mount", "umount")
_DISK_PROGRAMS = ("mkfs.ext4", "losetup")


def command(program: Sequence[str], *, real_root: bool = False) -> list[str]:
    """The program as the first process of a world of its own."""
    who = () if real_root else ("--map-root-user",)
    world = ["unshare", *who, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*world, "env", f"PATH={_path()}", *program]


def _path() -> str:
    """Where programs are: what changes networks and disks is not on every user's PATH."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@functools.cache
def why_no_network() -> str | None:
    """Why there can be no network namespaces here, or None."""
    return _missing(_PROGRAMS) or _tried(command(["sh", "-c", _TRY_NETWORK]))


@functools.cache
def why_no_disks() -> str | None:
    """Why there can be no file systems on loop devices here whose power can be cut, or None."""
    if os.geteuid() != 0:
        return "loop devices and the ioctl that cuts the power of a file system need root"
    return _missing((*_PROGRAMS, *_DISK_PROGRAMS)) or _tried(
        command([sys.executable, "-m", "tests.failover.world.isolation"], real_root=True)
    )


def _missing(programs: Sequence[str]) -> str | None:
    absent = [name for name in programs if shutil.which(name, path=_path()) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def _tried(arguments: Sequence[str]) -> str | None:
    try:
        tried = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TRY_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(arguments[:3])}: nothing within {_TRY_SECONDS} s"
    said = (tried.stderr or tried.stdout).strip().splitlines()
    return None if tried.returncode == 0 else (said[-1] if said else f"status {tried.returncode}")


def _try_disk() -> None:
    """In a world of its own: one small file system, written, cut off, mounted again."""
    with tempfile.TemporaryDirectory() as directory:
        image, place = f"{directory}/image", f"{directory}/mounted"
        os.mkdir(place)
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        for _ in range(2):
            subprocess.run(["mount", "-o", "loop", image, place], check=True)
            cut_power(place)
            subprocess.run(["umount", place], check=True)


if __name__ == "__main__":
    try:
        _try_disk()
    except (OSError, PowerCut, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
