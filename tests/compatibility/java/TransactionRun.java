import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions of the Java client on the class path.
 *
 * Usage: mixed|zombie BOOTSTRAP TOPIC ID | copy BOOTSTRAP SOURCE TARGET ID COUNT
 */
public final class TransactionRun {
    private static final Duration POLL = Duration.ofMillis(500);

    private TransactionRun() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1];
        if (arguments[0].equals("mixed")) {
            mixed(bootstrap, arguments[2], arguments[3]);
        } else if (arguments[0].equals("zombie")) {
            zombie(bootstrap, arguments[2], arguments[3]);
        } else {
            copy(bootstrap, arguments[2], arguments[3], arguments[4], Integer.parseInt(arguments[5]));
        }
    }

    /** Twenty transactions of three partitions; each third is aborted. */
    private static void mixed(String bootstrap, String topic, String id) throws Exception {
        try (var producer = transactional(bootstrap, id)) {
            for (int number = 0; number < 20; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 3; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, number + "-" + partition));
                }
                if (number % 3 > 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    /** A producer takes over while another has a transaction open, and that one finds out. */
    private static void zombie(String bootstrap, String topic, String id) throws Exception {
        var zombie = transactional(bootstrap, id);
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(topic, 0, null, "zombie")).get();
        try (var producer = transactional(bootstrap, id)) {
            try {
                zombie.commitTransaction();
                throw new AssertionError("the zombie has committed");
            } catch (ProducerFencedException expected) {
                zombie.close();
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "living"));
            producer.commitTransaction();
        }
    }

    /** Copies a topic in transactions with the offsets of what was read; every other one is aborted. */
    private static void copy(String bootstrap, String source, String target, String id, int count) throws Exception {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", id);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", "10");
        var text = new StringDeserializer();
        try (var producer = transactional(bootstrap, id);
                var consumer = new KafkaConsumer<>(properties, text, text)) {
            consumer.subscribe(List.of(source));
            int copied = 0;
            for (int attempt = 0; copied < count; attempt++) {
                var records = consumer.poll(POLL);
                while (records.isEmpty()) {
                    records = consumer.poll(POLL);
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<TopicPartition, Long> first = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, 0, null, record.value()));
                    var partition = new TopicPartition(record.topic(), record.partition());
                    offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                    first.putIfAbsent(partition, record.offset());
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (attempt % 2 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    for (var entry : consumer.committed(first.keySet()).entrySet()) {
                        long committed = entry.getValue() == null ? 0 : entry.getValue().offset();
                        if (committed != first.get(entry.getKey())) {
                            throw new AssertionError("offset " + committed + " was committed by an aborted transaction");
                        }
                        consumer.seek(entry.getKey(), committed);
                    }
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
            }
        }
    }

    private static KafkaProducer<String, String> transactional(String bootstrap, String id) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        var text = new StringSerializer();
        var producer = new KafkaProducer<>(properties, text, text);
        producer.initTransactions();
        return producer;
    }
}
