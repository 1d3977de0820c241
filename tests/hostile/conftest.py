"""Fixtures of the tests with hostile input."""

from tests.support.zookeeper import chroot, zookeeper_process

__all__ = ["chroot", "zookeeper_process"]
