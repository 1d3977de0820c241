"""What stands in the values of records: bytes as they are, JSON, Avro; and which of them cannot be read."""
