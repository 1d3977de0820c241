"""A program that copies a topic into another one, exactly once, in micro-batches, until it has what was there.

python -m tests.pipeline.sink.copying BOOTSTRAP SOURCE TARGET CHECKPOINT RECORDS_PER_BATCH
"""

import sys

from barnabas.pipeline.session import new_session


def main(bootstrap: str, source: str, target: str, checkpoint: str, records_per_batch: str) -> None:
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
    }
    # A task is tried three times, as on a cluster.
    spark = new_session("copying", master="local[2,3]", settings=settings)
    stream = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=records_per_batch)
        .load()
    )
    query = (
        stream.selectExpr("key", "value")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", checkpoint)
        .options(topic=target, transactionalIdPrefix="copying")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
