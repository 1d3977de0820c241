"""Fixtures of the contract suites."""

from tests.support.zookeeper import chroot, zookeeper_process
from tests.support.zookeeper_worlds import world

__all__ = ["chroot", "world", "zookeeper_process"]
