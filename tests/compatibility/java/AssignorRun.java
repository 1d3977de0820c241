import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs the assignors of the Kafka clients on groups that a file lists.
 *
 * Arguments: the file to read, the file to write. A line "topic NAME PARTITIONS" or "member ID INSTANCE-OR-- HEX" adds
 * to a group, "assign ASSIGNOR" ends it. For each member, sorted by id, a line "ID HEX" is written: its assignment as
 * it would travel. Subscriptions and assignments are in the bytes of the consumers' protocol.
 */
public final class AssignorRun {
    public static void main(String[] arguments) throws Exception {
        Map<String, AbstractPartitionAssignor> assignors = new HashMap<>();
        List<AbstractPartitionAssignor> all = List.of(
            new RangeAssignor(), new RoundRobinAssignor(), new StickyAssignor(), new CooperativeStickyAssignor());
        all.forEach(each -> assignors.put(each.name(), each));
        Map<String, Integer> topics = new HashMap<>();
        Map<String, Subscription> members = new HashMap<>();
        StringBuilder output = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            if (words[0].equals("topic")) {
                topics.put(words[1], Integer.parseInt(words[2]));
            } else if (words[0].equals("member")) {
                Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes(words[3])));
                subscription.setGroupInstanceId(words[2].equals("-") ? Optional.empty() : Optional.of(words[2]));
                members.put(words[1], subscription);
            } else {
                Map<String, List<TopicPartition>> found = assignors.get(words[1]).assign(topics, members);
                new TreeMap<>(found).forEach((member, partitions) -> output
                    .append(member).append(' ')
                    .append(hex(ConsumerProtocol.serializeAssignment(new Assignment(partitions)))).append('\n'));
                topics.clear();
                members.clear();
            }
        }
        Files.writeString(Path.of(arguments[1]), output.toString());
    }

    private static byte[] bytes(String hex) {
        byte[] result = new byte[hex.length() / 2];
        for (int at = 0; at < result.length; at++) {
            result[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return result;
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder result = new StringBuilder();
        while (buffer.hasRemaining()) {
            result.append(String.format("%02x", buffer.get()));
        }
        return result.toString();
    }
}
