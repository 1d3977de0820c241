"""What stands in ZooKeeper: paths, payloads, operations as values, and the session."""
