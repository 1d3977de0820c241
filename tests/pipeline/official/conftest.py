"""A broker of our own for both connectors."""

from tests.pipeline.source.conftest import broker

__all__ = ["broker"]
