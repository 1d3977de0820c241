"""A broker of our own for topics that are audited."""

from tests.pipeline.source.conftest import broker

__all__ = ["broker"]
