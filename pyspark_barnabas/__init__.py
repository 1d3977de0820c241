"""Where Spark finds the data source `barnabas`: it looks into every installed `pyspark_*` for a `DefaultSource`.

It imports nothing but PySpark before the source is used: a module that fails when it is imported would hide all other
sources, and would not be named.
"""

import importlib.util
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
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


def _source() -> Any:
    missing = [name for name in ("pyarrow", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"the data source barnabas needs {', '.join(missing)}: pip install 'barnabas[pipeline]'"
        )
    return importlib.import_module("barnabas.pipeline.source.spark_source")
