"""The cluster's id in /cluster/id, made once by whichever broker comes first; and the paths that every start makes."""

import asyncio
import base64
import contextlib
import random

from zk_schema.ops import Create, NodeExists, NodeMissing, OutcomeUnknown
from zk_schema.paths import CLUSTER_ID, PERSISTENT_PATHS, parents
from zk_schema.payloads import ClusterId
from zk_schema.port import ZooKeeper

_ID_BYTES = 16


def new_cluster_id(chance: random.Random) -> str:
    """A random UUID (version 4) in base64url without padding: 22 characters."""
    number = chance.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    return base64.urlsafe_b64encode(number.to_bytes(_ID_BYTES)).rstrip(b"=").decode()


async def read_cluster_id(zk: ZooKeeper) -> str | None:
    """The cluster's id, None while it has none.

    Raises:
        InvalidPayload: the znode holds something else.
    """
    znode = await zk.get(CLUSTER_ID)
    return None if znode is None else ClusterId.decode(znode.data).cluster_id


async def create_or_get_cluster_id(zk: ZooKeeper, proposed: str) -> str:
    """The cluster's id, which is `proposed` if there was none."""
    while (present := await read_cluster_id(zk)) is None:
        await create_path(zk, CLUSTER_ID, ClusterId(proposed).encode())
    return present


async def create_persistent_paths(zk: ZooKeeper) -> None:
    """Make what every broker finds or makes at its start; where all is there it costs a round trip or two."""
    await asyncio.gather(*(create_path(zk, path) for path in PERSISTENT_PATHS))


async def create_path(zk: ZooKeeper, path: str, data: bytes | None = None) -> None:
    """Make a znode and, with null data, what is missing above it; those that are there stay as they are."""
    while await zk.exists(path) is None:
        with contextlib.suppress(OutcomeUnknown, NodeMissing):
            for parent in parents(path):
                with contextlib.suppress(NodeExists):
                    await zk.write(Create(parent, None))
            with contextlib.suppress(NodeExists):
                await zk.write(Create(path, data))
