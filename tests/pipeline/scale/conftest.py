"""A broker of our own, and a Spark cluster of a master and two workers on this machine."""

from tests.pipeline.scale.standalone import standalone
from tests.pipeline.source.conftest import broker

__all__ = ["broker", "standalone"]
