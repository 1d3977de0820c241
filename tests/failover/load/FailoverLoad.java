import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Load by the Java client, with the same arguments and the same history file as the Python load clients: the first
 * argument says "produce" or "read". Ends when its standard input closes.
 */
public final class FailoverLoad {
    private static final String DIGITS = "0123456789abcdef";
    private static final long PATIENCE_NANOS = Duration.ofSeconds(120).toNanos();

    private final Map<String, String> task = new HashMap<>();
    private final BufferedWriter history;
    private final AtomicInteger open = new AtomicInteger();
    private final CountDownLatch toldToEnd = new CountDownLatch(1);

    private FailoverLoad(String[] arguments) throws IOException {
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            task.put(arguments[i].substring(2, equals), arguments[i].substring(equals + 1));
        }
        history = Files.newBufferedWriter(Path.of(task.get("history")), StandardCharsets.US_ASCII);
        write("client " + task.get("client"));
    }

    public static void main(String[] arguments) throws Exception {
        FailoverLoad load = new FailoverLoad(arguments);
        if (arguments[0].equals("produce")) {
            load.listen();
            load.produce();
        } else {
            load.read();
        }
        load.write("end");
        load.history.close();
    }

    private int number(String name) {
        return Integer.parseInt(task.get(name));
    }

    private static long now() {
        return System.nanoTime() / 1000;
    }

    private synchronized void write(String line) throws IOException {
        history.write(line);
        history.write('\n');
    }

    private synchronized void flush() throws IOException {
        history.flush();
    }

    private boolean isToldToEnd() {
        return toldToEnd.getCount() == 0;
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

    /** The value in the form of history_values: head, checksum over head and padding, padding drawn from the head. */
    private static String head(String topic, int partition, String client, long sequence) {
        return topic + "|" + partition + "|" + client + "|0|" + sequence + "|";
    }

    private void produce() throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", task.get("bootstrap"));
        properties.put("client.id", task.get("client"));
        properties.put("enable.idempotence", "true");
        properties.put("acks", "all");
        properties.put("linger.ms", "5");
        properties.put("retries", String.valueOf(Integer.MAX_VALUE));
        properties.put("delivery.timeout.ms", "180000");
        properties.put("max.block.ms", "120000");
        properties.put("request.timeout.ms", "10000");
        properties.put("retry.backoff.ms", "50");
        properties.put("reconnect.backoff.max.ms", "200");
        var bytes = new ByteArraySerializer();
        int rate = number("rate");
        int partitions = number("partitions");
        long[] sequences = new long[partitions];
        try (var producer = new KafkaProducer<>(properties, bytes, bytes)) {
            long start = System.nanoTime();
            long turn = 0;
            while (!isToldToEnd()) {
                long due = (System.nanoTime() - start) * rate / 1_000_000_000L - turn;
                if (due > rate) {
                    start += (due - rate) * 1_000_000_000L / rate;
                    due = rate;
                }
                for (long left = Math.min(due, number("most-open") - open.get()); left > 0; left--, turn++) {
                    int partition = (int) (turn % partitions);
                    send(producer, partition, sequences[partition]++);
                }
                flush();
                Thread.sleep(5);
            }
            producer.flush();
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, int partition, long sequence) throws IOException {
        byte[] head = head(task.get("topic"), partition, task.get("client"), sequence)
                .getBytes(StandardCharsets.US_ASCII);
        byte[] padding = new byte[Math.max(0, number("value-bytes") - head.length - 9)];
        for (int i = 0; i < padding.length; i++) {
            padding[i] = head[i % head.length];
        }
        CRC32 crc = new CRC32();
        crc.update(head);
        crc.update(padding);
        String known = new String(head, StandardCharsets.US_ASCII) + String.format("%08x|", crc.getValue());
        byte[] value = new byte[known.length() + padding.length];
        System.arraycopy(known.getBytes(StandardCharsets.US_ASCII), 0, value, 0, known.length());
        System.arraycopy(padding, 0, value, known.length(), padding.length);
        write("i " + now() + " " + known);
        open.incrementAndGet();
        var record = new ProducerRecord<byte[], byte[]>(task.get("topic"), partition, null, value);
        producer.send(record, (sent, error) -> {
            open.decrementAndGet();
            try {
                write(error == null
                        ? "k " + now() + " " + partition + " " + sequence + (sent.hasOffset() ? " " + sent.offset() : "")
                        : "u " + now() + " " + partition + " " + sequence + " " + error.getClass().getSimpleName());
            } catch (IOException failed) {
                throw new java.io.UncheckedIOException(failed);
            }
        });
    }

    private void read() throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", task.get("bootstrap"));
        properties.put("client.id", task.get("client"));
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        properties.put("max.poll.records", "5000");
        var bytes = new ByteArrayDeserializer();
        Map<TopicPartition, Long> unread = new HashMap<>();
        for (int partition = 0; partition < number("partitions"); partition++) {
            unread.put(new TopicPartition(task.get("topic"), partition), 0L);
        }
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.assign(unread.keySet());
            consumer.seekToBeginning(unread.keySet());
            unread.putAll(consumer.endOffsets(unread.keySet()));
            unread.values().removeIf(end -> end == 0);
            long deadline = System.nanoTime() + PATIENCE_NANOS;
            while (!unread.isEmpty() && System.nanoTime() < deadline) {
                long since = now();
                var records = consumer.poll(Duration.ofMillis(200));
                for (TopicPartition partition : records.partitions()) {
                    writeRead(partition, records.records(partition), since);
                    deadline = System.nanoTime() + PATIENCE_NANOS;
                }
                unread.entrySet().removeIf(entry -> consumer.position(entry.getKey()) >= entry.getValue());
            }
            if (!unread.isEmpty()) {
                write("e " + now() + " not read to the end: " + unread);
            }
        }
    }

    private void writeRead(TopicPartition partition, Iterable<ConsumerRecord<byte[], byte[]>> records, long since)
            throws IOException {
        write("p " + since + " " + now() + " " + partition.topic() + " " + partition.partition() + " 0 1");
        for (ConsumerRecord<byte[], byte[]> record : records) {
            StringBuilder hex = new StringBuilder("x ").append(record.offset()).append(' ');
            for (byte one : record.value()) {
                hex.append(DIGITS.charAt(one >> 4 & 15)).append(DIGITS.charAt(one & 15));
            }
            write(hex.toString());
        }
    }
}
