"""The data pipeline: what stands in topics as Arrow columns, and Spark sources that give them (extra `pipeline`)."""
