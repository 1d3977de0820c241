"""A broker of our own for loads."""

from tests.pipeline.source.conftest import broker

__all__ = ["broker"]
