"""What the broker's configuration says of the log behind a coordinator. Pure."""

from dataclasses import dataclass

from barnabas.protocol.batch import Codec


@dataclass(slots=True, frozen=True)
class ShardSettings:
    """Of offsets.* or transaction.state.log.*; `codec` is that of the batches."""

    commit_timeout_ms: int = 5_000
    load_buffer_bytes: int = 5 * 1024 * 1024
    codec: Codec = Codec.NONE
