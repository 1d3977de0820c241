"""The cleaner of a broker: made from the configuration, and following it."""

from collections.abc import Mapping
from typing import Final

from barnabas.runtime.disk import Disk
from barnabas.storage.cleaner import Cleaner
from barnabas.storage.cleaner_job import CleanerSettings
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigValue
from broker.metrics import Families
from broker.services import Services

_LEAST_BACKOFF_MS: Final = 50
_LEAST_IO_BUFFER_BYTES: Final = 4096
_LEAST_BYTES_PER_SECOND: Final = 1024.0


async def clean_logs(services: Services, disk: Disk) -> None:
    """Clean the broker's logs as its configuration says, until cancelled."""
    settings = cleaner_settings(services.dynamic_config.current)
    if not settings.is_enabled:
        return
    cleaner = Cleaner(
        services.log_directories,
        disk=disk,
        clock=services.clock,
        offload=services.offload,
        random=services.random,
        settings=settings,
    )
    services.dynamic_config.listen(lambda _, new: cleaner.configure(cleaner_settings(new)))

    def families() -> Families:
        from broker.metric_cleaning import cleaner_families  # noqa: PLC0415 - see broker.metrics

        return cleaner_families(cleaner, services.log_directories, services.clock)

    services.metrics.add_source(families)
    await cleaner.run()


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    """What the cleaner goes by. What is too little to get anywhere with is taken as the least that is enough."""
    values = config.values
    return CleanerSettings(
        is_enabled=values["log.cleaner.enable"] is True,
        backoff_ms=max(_LEAST_BACKOFF_MS, int(_number(values, "log.cleaner.backoff.ms"))),
        dedupe_buffer_bytes=int(_number(values, "log.cleaner.dedupe.buffer.size")),
        io_buffer_bytes=max(_LEAST_IO_BUFFER_BYTES, int(_number(values, "log.cleaner.io.buffer.size"))),
        load_factor=_number(values, "log.cleaner.io.buffer.load.factor"),
        max_bytes_per_second=max(_LEAST_BYTES_PER_SECOND, _number(values, "log.cleaner.io.max.bytes.per.second")),
    )


def _number(values: Mapping[str, ConfigValue], name: str) -> float:
    value = values[name]
    assert isinstance(value, int | float), name
    return value
