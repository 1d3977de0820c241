"""From record batches as they stand in a log or an answer to a fetch to the columns of Spark's Kafka source."""
