import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;

/**
 * One member of a group, as `tests/compatibility/group_member.py` is one.
 *
 * Arguments: bootstrap, group, topic, assignor, session timeout in milliseconds. Each record is a line
 * "record PARTITION OFFSET" before it is committed. SIGTERM has it leave.
 */
public final class GroupMember {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("partition.assignment.strategy", ASSIGNORS.get(arguments[3]));
        settings.put("session.timeout.ms", arguments[4]);
        settings.put("heartbeat.interval.ms", "500");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(20_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[2]));
        try {
            while (true) {
                read(consumer);
            }
        } catch (WakeupException error) {
            // It is to leave.
        } finally {
            consumer.close();
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
            return;
        }
        StringBuilder lines = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            lines.append("record ").append(record.partition()).append(' ').append(record.offset()).append('\n');
        }
        System.out.print(lines);
        System.out.flush();
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RebalanceInProgressException error) {
            System.err.println("not committed: " + error);
        }
    }
}
