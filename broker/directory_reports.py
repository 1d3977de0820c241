"""Telling the controller that a log directory failed: a znode in /log_dir_event_notification."""

import logging

from barnabas.protocol.ids import BrokerId
from zk_schema import paths
from zk_schema.ops import Create, OutcomeUnknown, SessionLost, ZooKeeperError
from zk_schema.payloads import LogDirEvent
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)


async def report_directory_failure(zk: ZooKeeper, broker_id: BrokerId) -> None:
    """Leave the note. A second one after an unknown outcome does no harm.

    With the session the registration is gone as well, and the controller looks at all replicas when it is back.
    """
    event = Create(paths.LOG_DIR_EVENT_PREFIX, LogDirEvent(broker_id).encode(), sequential=True)
    while True:
        try:
            await zk.write(event)
        except OutcomeUnknown:
            continue
        except SessionLost:
            return
        except ZooKeeperError as error:
            log.error("broker %d: the controller cannot be told of a failed log directory: %s", broker_id, error)
        return
