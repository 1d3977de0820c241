"""A small cluster in this process."""

from tests.unit.pipeline.source.conftest import small

__all__ = ["small"]
