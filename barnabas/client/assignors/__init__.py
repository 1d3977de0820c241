"""Who of a group reads which partitions: Kafka's assignors, as pure functions of the members' subscriptions."""
