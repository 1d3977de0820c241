"""Where Spark finds `barnabas-segments`: it looks into every installed `pyspark_*` for a `DefaultSource`.

It imports nothing but PySpark before the source is used: a module that fails when it is imported would hide all other
sources, and would not be named.
"""

import importlib.util
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Logs of Kafka or Barnabas brokers, read from their files, as a table of records or of batches."""

    @classmethod
    def name(cls) -> str:
        return "barnabas-segments"

    def schema(self) -> StructType:
        schema: StructType = _source().default_schema(self.options)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        reader: DataSourceReader = _source().new_reader(self.options, schema)
        return reader


def _source() -> Any:
    missing = [name for name in ("pyarrow", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"the data source barnabas-segments needs {', '.join(missing)}: pip install 'barnabas[pipeline]'"
        )
    return importlib.import_module("barnabas.pipeline.segments.spark_source")
