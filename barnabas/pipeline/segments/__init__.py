"""The Spark source `barnabas-segments`: logs read from their files, without a broker."""
