"""Where Spark finds the data source `barnabas`: it looks into every installed `pyspark_*` for a `DefaultSource`.

It imports nothing but PySpark before the source is used: a module that fails when it is imported would hide all other
sources, and would not be named.
"""

import importlib.util
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics of a Kafka or Barnabas cluster, in batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        schema: StructType = _source().default_schema(self.options)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        reader: DataSourceReader = _source().new_reader(self.options, schema)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name is Spark's
        reader: DataSourceStreamReader = _source().new_stream_reader(self.options, schema)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer: DataSourceWriter = _sink().new_writer(self.options, schema, overwrite=overwrite)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        writer: DataSourceStreamWriter = _sink().new_stream_writer(self.options, schema, overwrite=overwrite)
        return writer


def _source() -> Any:
    return _load("barnabas.pipeline.source.spark_source")


def _sink() -> Any:
    return _load("barnabas.pipeline.sink.spark_sink")


def _load(module: str) -> Any:
    missing = [name for name in ("pyarrow", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"the data source barnabas needs {', '.join(missing)}: pip install 'barnabas[pipeline]'"
        )
    return importlib.import_module(module)
