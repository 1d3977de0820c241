"""What every job of the pipeline has: a configuration, a report, a line of progress, Spark when it asks for it."""
