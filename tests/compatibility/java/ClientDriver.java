import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends the records of a file, or writes what it read to a file, through the Java client on the class path.
 *
 * A record in a file is topic, partition i32, offset i64, timestamp i64, key, value, header count i32 and then name and
 * value of each header. Text and bytes have an i32 length before them, -1 for null.
 *
 * Usage: produce|produce-one-by-one RECORDS RESULTS PROPERTIES | consume WANTED RECORDS PROPERTIES
 */
public final class ClientDriver {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private ClientDriver() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (var input = Files.newBufferedReader(Path.of(arguments[3]))) {
            properties.load(input);
        }
        if (arguments[0].startsWith("produce")) {
            boolean oneByOne = arguments[0].equals("produce-one-by-one");
            produce(Path.of(arguments[1]), Path.of(arguments[2]), properties, oneByOne);
        } else {
            consume(Path.of(arguments[1]), Path.of(arguments[2]), properties);
        }
    }

    /** A line of the results is "partition offset", or "error" and the name of the exception. */
    private static void produce(Path records, Path results, Properties properties, boolean oneByOne)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(properties, bytes, bytes);
                var input = new DataInputStream(new BufferedInputStream(Files.newInputStream(records)))) {
            while (input.available() > 0) {
                sent.add(producer.send(readRecord(input)));
                if (oneByOne) {
                    producer.flush();
                }
            }
            producer.flush();
        }
        List<String> lines = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            try {
                lines.add(future.get().partition() + " " + future.get().offset());
            } catch (ExecutionException failed) {
                lines.add("error " + failed.getCause().getClass().getSimpleName());
            }
        }
        Files.write(results, lines);
    }

    /** A line of what is wanted is "topic partition count"; reading ends when every partition gave its count. */
    private static void consume(Path wanted, Path records, Properties properties) throws Exception {
        Map<TopicPartition, Long> missing = new HashMap<>();
        for (String line : Files.readAllLines(wanted)) {
            String[] words = line.split(" ");
            missing.put(new TopicPartition(words[0], Integer.parseInt(words[1])), Long.parseLong(words[2]));
        }
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes);
                var output = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(records)))) {
            consumer.assign(missing.keySet());
            consumer.seekToBeginning(missing.keySet());
            while (missing.values().stream().anyMatch(count -> count > 0) && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    missing.merge(new TopicPartition(record.topic(), record.partition()), -1L, Long::sum);
                    writeRecord(output, record);
                    deadline = System.nanoTime() + PATIENCE.toNanos();
                }
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> readRecord(DataInputStream input) throws IOException {
        String topic = readText(input);
        int partition = input.readInt();
        input.readLong();
        long timestamp = input.readLong();
        byte[] key = readBytes(input);
        byte[] value = readBytes(input);
        Headers headers = new RecordHeaders();
        for (int left = input.readInt(); left > 0; left--) {
            headers.add(readText(input), readBytes(input));
        }
        return new ProducerRecord<>(topic, partition < 0 ? null : partition, timestamp, key, value, headers);
    }

    private static void writeRecord(DataOutputStream output, ConsumerRecord<byte[], byte[]> record) throws IOException {
        writeBytes(output, record.topic().getBytes(StandardCharsets.UTF_8));
        output.writeInt(record.partition());
        output.writeLong(record.offset());
        output.writeLong(record.timestamp());
        writeBytes(output, record.key());
        writeBytes(output, record.value());
        Header[] headers = record.headers().toArray();
        output.writeInt(headers.length);
        for (Header header : headers) {
            writeBytes(output, header.key().getBytes(StandardCharsets.UTF_8));
            writeBytes(output, header.value());
        }
    }

    private static String readText(DataInputStream input) throws IOException {
        return new String(readBytes(input), StandardCharsets.UTF_8);
    }

    private static byte[] readBytes(DataInputStream input) throws IOException {
        int length = input.readInt();
        return length < 0 ? null : input.readNBytes(length);
    }

    private static void writeBytes(DataOutputStream output, byte[] bytes) throws IOException {
        output.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            output.write(bytes);
        }
    }
}
