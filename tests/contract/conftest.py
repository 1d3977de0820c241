"""Fixtures of the contract suites."""

from tests.support.control_line import line, open_plane
from tests.support.zookeeper import chroot, zookeeper_process
from tests.support.zookeeper_worlds import world

__all__ = ["chroot", "line", "open_plane", "world", "zookeeper_process"]
