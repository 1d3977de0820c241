"""A broker of our own for events and their counts."""

from tests.pipeline.source.conftest import broker

__all__ = ["broker"]
