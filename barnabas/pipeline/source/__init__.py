"""Topics as a Spark data source: planned on the driver, fetched raw and decoded into Arrow columns by the workers."""
