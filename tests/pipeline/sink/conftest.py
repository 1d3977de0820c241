"""A broker of our own for what is written."""

from tests.pipeline.source.conftest import broker

__all__ = ["broker"]
