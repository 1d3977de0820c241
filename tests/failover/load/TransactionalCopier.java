import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consume, transform, produce by the Java client, with the arguments, the log and the statuses of
 * `load/transactional.py`: `copy` until standard input closes, one transaction for what one poll brought. `read` writes
 * all that is committed in the target as lines "partition value" to the log.
 */
public final class TransactionalCopier {
    private static final int FENCED = 3;
    private static final int BROKEN = 4;
    private static final Duration POLL = Duration.ofMillis(100);
    /** A broker that is silent is left before the transaction is 60 s old. */
    private static final String REQUEST_TIMEOUT_MS = "10000";
    private static final long PATIENCE_NANOS = Duration.ofSeconds(120).toNanos();

    private final Map<String, String> job = new HashMap<>();
    private final CountDownLatch toldToEnd = new CountDownLatch(1);
    private final BufferedWriter log;

    private TransactionalCopier(String[] arguments) throws IOException {
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            job.put(arguments[i].substring(2, equals), arguments[i].substring(equals + 1));
        }
        log = Files.newBufferedWriter(Path.of(job.get("log")), StandardCharsets.UTF_8,
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    public static void main(String[] arguments) throws Exception {
        TransactionalCopier copier = new TransactionalCopier(arguments);
        if (arguments[0].equals("read")) {
            copier.read();
            copier.log.close();
            return;
        }
        copier.listen();
        try {
            copier.copyAll();
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            fenced.printStackTrace();
            System.exit(FENCED);
        } catch (KafkaException broken) {
            broken.printStackTrace();
            System.exit(BROKEN);
        }
    }

    private int number(String name) {
        return Integer.parseInt(job.get(name));
    }

    private void say(String line) throws IOException {
        log.write(line);
        log.write('\n');
        log.flush();
    }

    private void listen() {
        Thread listener = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Nothing is ever sent; the end of the input is the message.
                }
            } catch (IOException closed) {
                // So is this.
            }
            toldToEnd.countDown();
        });
        listener.setDaemon(true);
        listener.start();
    }

    private Properties reads() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job.get("bootstrap"));
        settings.put("group.id", job.get("group"));
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("request.timeout.ms", REQUEST_TIMEOUT_MS);
        settings.put("retry.backoff.ms", "50");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private KafkaProducer<byte[], byte[]> newProducer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job.get("bootstrap"));
        settings.put("transactional.id", job.get("transactional-id"));
        settings.put("linger.ms", "2");
        settings.put("max.block.ms", "120000");
        settings.put("request.timeout.ms", REQUEST_TIMEOUT_MS);
        settings.put("retry.backoff.ms", "50");
        settings.put("reconnect.backoff.max.ms", "200");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void copyAll() throws IOException {
        Properties settings = reads();
        settings.put("max.poll.records", job.get("most"));
        int partition = number("partition");
        Random drawn = new Random(number("seed"));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var producer = newProducer()) {
            producer.initTransactions();
            if (partition < 0) {
                consumer.subscribe(List.of(job.get("source")));
            } else {
                consumer.assign(List.of(new TopicPartition(job.get("source"), partition)));
            }
            for (int count = 1; toldToEnd.getCount() > 0; ) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                if (!records.isEmpty()) {
                    boolean wanted = drawn.nextInt(number("abort-one-in")) > 0;
                    // Outside of a group there is nothing but its name to go by.
                    var member = partition < 0 ? consumer.groupMetadata() : new ConsumerGroupMetadata(job.get("group"));
                    say("b " + count);
                    boolean committed = copy(producer, records, member, wanted);
                    say((committed ? "c " : "a ") + count++);
                    if (!committed) {
                        rewind(consumer);
                    }
                }
            }
        }
    }

    /** Whether the copy was committed; it is aborted otherwise. */
    private boolean copy(KafkaProducer<byte[], byte[]> producer, ConsumerRecords<byte[], byte[]> records,
            ConsumerGroupMetadata member, boolean wanted) throws IOException {
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(job.get("target"), record.partition(), null, record.value()));
                ends.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(ends, member);
            if (wanted) {
                again(producer::commitTransaction);
                return true;
            }
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            say("? " + error);
        }
        again(producer::abortTransaction);
        return false;
    }

    /** The call once more while nobody knows how it ended. */
    private void again(Runnable call) throws IOException {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                say("? " + error);
            }
        }
    }

    /** Back to what the group committed. */
    private void rewind(KafkaConsumer<byte[], byte[]> consumer) throws IOException {
        while (true) {
            Set<TopicPartition> assigned = consumer.assignment();
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(assigned);
                for (TopicPartition each : assigned) {
                    OffsetAndMetadata found = committed.get(each);
                    if (found == null) {
                        consumer.seekToBeginning(List.of(each));
                    } else {
                        consumer.seek(each, found);
                    }
                }
                return;
            } catch (TimeoutException error) {
                say("? " + error);
            }
        }
    }

    private void read() throws IOException {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < number("partitions"); partition++) {
            partitions.add(new TopicPartition(job.get("target"), partition));
        }
        Properties settings = reads();
        settings.put("max.poll.records", "5000");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> unread = new HashMap<>(consumer.endOffsets(partitions));
            long deadline = System.nanoTime() + PATIENCE_NANOS;
            while (true) {
                unread.entrySet().removeIf(entry -> consumer.position(entry.getKey()) >= entry.getValue());
                if (unread.isEmpty()) {
                    return;
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    log.write(record.partition() + " " + new String(record.value(), StandardCharsets.UTF_8) + "\n");
                    deadline = System.nanoTime() + PATIENCE_NANOS;
                }
                if (System.nanoTime() > deadline) {
                    throw new KafkaException("not read to the end: " + unread);
                }
            }
        }
    }
}
