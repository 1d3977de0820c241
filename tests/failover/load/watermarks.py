"""Where a partition starts and ends, by librdkafka."""

import time

import confluent_kafka

_ANSWER_SECONDS = 10.0


def watermarks(consumer: confluent_kafka.Consumer, topic: str, partition: int, *, seconds: float) -> tuple[int, int]:
    """The low and the high watermark. When leadership has just moved, librdkafka leaves it to who asks to ask again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            where = confluent_kafka.TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(where, timeout=_ANSWER_SECONDS)
        except confluent_kafka.KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return low, high
