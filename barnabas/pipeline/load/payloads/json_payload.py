"""JSON: an object in each value, with the fields and types of a schema.

A field that is not there is null, one that the schema does not have is left out. Types are strict: a text is no number.
Times and dates are texts of RFC 3339, times with their zone; binaries are texts in base64; decimals are numbers or
texts.
"""

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Final, Optional, TypedDict

import msgspec
import pyarrow as pa

from barnabas.pipeline.load.payloads.decoding import BadValue, Decoded, decode_each


class JsonPayload:
    """Reads values of an Arrow struct."""

    def __init__(self, kind: pa.StructType) -> None:
        self.kind = kind
        self._decode = msgspec.json.Decoder(_python_type(kind)).decode

    def decode(self, values: pa.Array) -> Decoded:
        return decode_each(values, self.kind, self._read)

    def _read(self, value: bytes) -> Any:
        try:
            return self._decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadValue(str(error)) from None


def _python_type(kind: pa.DataType) -> Any:
    """What msgspec makes of JSON for a column of this type."""
    if pa.types.is_struct(kind):
        fields = {each.name: Optional[_python_type(each.type)] for each in kind}  # noqa: UP045 - a value, no annotation
        maker: Any = TypedDict
        return maker("Fields", fields, total=False)
    if pa.types.is_list(kind):
        return list[Optional[_python_type(kind.value_type)]]  # type: ignore[misc]  # noqa: UP045
    if pa.types.is_map(kind):
        return dict[str, Optional[_python_type(kind.item_type)]]  # type: ignore[misc]  # noqa: UP045
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if pa.types.is_decimal(kind):
        return Decimal
    return _PLAIN[kind]


_PLAIN: Final[dict[pa.DataType, Any]] = {
    pa.string(): str,
    pa.binary(): bytes,
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.date32(): dt.date,
    pa.timestamp("us", tz="UTC"): Annotated[dt.datetime, msgspec.Meta(tz=True)],
}
