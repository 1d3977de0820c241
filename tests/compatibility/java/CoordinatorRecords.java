import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import kafka.api.ApiVersion;
import kafka.api.KAFKA_0_10_0_IV1$;
import kafka.api.KAFKA_0_10_1_IV0$;
import kafka.api.KAFKA_2_0_IV1$;
import kafka.api.KAFKA_2_1_IV0$;
import kafka.api.KAFKA_2_7_IV2$;
import kafka.common.OffsetAndMetadata;
import kafka.coordinator.group.Empty$;
import kafka.coordinator.group.GroupMetadata;
import kafka.coordinator.group.GroupMetadata$;
import kafka.coordinator.group.GroupMetadataManager;
import kafka.coordinator.group.GroupMetadataManager$;
import kafka.coordinator.group.MemberMetadata;
import kafka.coordinator.group.Stable$;
import kafka.coordinator.transaction.CompleteAbort$;
import kafka.coordinator.transaction.Ongoing$;
import kafka.coordinator.transaction.PrepareCommit$;
import kafka.coordinator.transaction.TransactionLog$;
import kafka.coordinator.transaction.TransactionState;
import kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.utils.Time;
import scala.Option;
import scala.Tuple2;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/** Writes records of the coordinators' topics with Kafka's own classes: a line each, its name and its bytes in hexadecimal. */
public final class CoordinatorRecords {
    private static final String WORD = "caf\u00e9 \ud83d\ude80";
    private static final byte[] SUBSCRIPTION = {0, 0, 0, 0, 0, 1, 0, 1, 't', -1, -1, -1, -1};
    private static final byte[] ASSIGNMENT = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

    public static void main(String[] arguments) throws Exception {
        offsets();
        groups();
        transactions();
    }

    private static void offsets() throws Exception {
        TopicPartition partition = new TopicPartition("orders", 7);
        print("offset_key_v1", GroupMetadataManager.offsetCommitKey("readers", partition));
        print("offset_key_v1_words", GroupMetadataManager.offsetCommitKey(WORD, new TopicPartition("t", Integer.MAX_VALUE)));
        print("offset_key_v1_nameless", GroupMetadataManager.offsetCommitKey("", partition));
        byte[] oldKey = GroupMetadataManager.offsetCommitKey("readers", partition);
        oldKey[1] = 0;
        print("offset_key_v0", oldKey);

        Option<Object> never = Option.empty();
        OffsetAndMetadata plain = new OffsetAndMetadata(42L, Optional.of(5), "note", 1_600_000_000_000L, never);
        OffsetAndMetadata bare = new OffsetAndMetadata(Long.MAX_VALUE, Optional.empty(), "", -1L, never);
        OffsetAndMetadata expiring =
            new OffsetAndMetadata(42L, Optional.of(5), WORD, 1_600_000_000_000L, Option.apply((Object) 1_600_000_060_000L));
        print("offset_value_v3", GroupMetadataManager.offsetCommitValue(plain, KAFKA_2_7_IV2$.MODULE$));
        print("offset_value_v3_bare", GroupMetadataManager.offsetCommitValue(bare, KAFKA_2_7_IV2$.MODULE$));
        print("offset_value_v1_expiring", GroupMetadataManager.offsetCommitValue(expiring, KAFKA_2_7_IV2$.MODULE$));
        print("offset_value_v1_unset", GroupMetadataManager.offsetCommitValue(plain, KAFKA_2_0_IV1$.MODULE$));
        print("offset_value_v2", GroupMetadataManager.offsetCommitValue(plain, KAFKA_2_1_IV0$.MODULE$));
        Struct oldest = new Struct(schema("OFFSET_COMMIT_VALUE_SCHEMA_V0"));
        oldest.set("offset", 42L).set("metadata", "note").set("timestamp", 1_600_000_000_000L);
        ByteBuffer buffer = ByteBuffer.allocate(2 + oldest.sizeOf());
        buffer.putShort((short) 0);
        oldest.writeTo(buffer);
        print("offset_value_v0", buffer.array());
    }

    private static Schema schema(String name) throws Exception {
        java.lang.reflect.Field field = GroupMetadataManager$.class.getDeclaredField(name);
        field.setAccessible(true);
        return (Schema) field.get(GroupMetadataManager$.MODULE$);
    }

    private static void groups() {
        print("group_key_v2", GroupMetadataManager.groupMetadataKey("readers"));
        print("group_key_v2_words", GroupMetadataManager.groupMetadataKey(WORD));

        List<MemberMetadata> none = new ArrayList<>();
        GroupMetadata empty = group(Empty$.MODULE$, 3, "consumer", null, null, 1_600_000_000_000L, none);
        GroupMetadata untyped = group(Empty$.MODULE$, 0, "", null, null, null, none);
        GroupMetadata one = group(
            Stable$.MODULE$, 4, "consumer", "range", "c-1", 1_600_000_000_000L, List.of(member("c-1", "consumer", null)));
        GroupMetadata pinned = group(
            Stable$.MODULE$, 5, "connect", "sessioned", "i-1", 1_600_000_000_000L, List.of(member("i-1", "connect", "i")));
        HashMap<String, byte[]> assignments = new HashMap<>();
        assignments.put("c-1", ASSIGNMENT);
        assignments.put("i-1", new byte[0]);
        for (Object[] each : new Object[][] {
            {"v3", KAFKA_2_7_IV2$.MODULE$}, {"v2", KAFKA_2_1_IV0$.MODULE$},
            {"v1", KAFKA_0_10_1_IV0$.MODULE$}, {"v0", KAFKA_0_10_0_IV1$.MODULE$}}) {
            ApiVersion version = (ApiVersion) each[1];
            scala.collection.immutable.Map<String, byte[]> given = scala.collection.immutable.Map.from(assignments);
            print("group_value_" + each[0] + "_empty", GroupMetadataManager.groupMetadataValue(empty, given, version));
            print("group_value_" + each[0] + "_untyped", GroupMetadataManager.groupMetadataValue(untyped, given, version));
            print("group_value_" + each[0] + "_member", GroupMetadataManager.groupMetadataValue(one, given, version));
            print("group_value_" + each[0] + "_static", GroupMetadataManager.groupMetadataValue(pinned, given, version));
        }
    }

    private static GroupMetadata group(
        kafka.coordinator.group.GroupState state, int generation, String type, String protocol, String leader, Long since,
        List<MemberMetadata> members) {
        return GroupMetadata$.MODULE$.loadGroup(
            "readers", state, generation, type, protocol, leader, Option.apply((Object) since),
            CollectionConverters.asScala(members), Time.SYSTEM);
    }

    private static MemberMetadata member(String id, String type, String instance) {
        Tuple2<String, byte[]> protocol = new Tuple2<>(type.equals("consumer") ? "range" : "sessioned", SUBSCRIPTION);
        return new MemberMetadata(
            id, "readers", Option.apply(instance), "client", "/10.0.0.1", 300_000, 10_000, type,
            CollectionConverters.asScala(List.of(protocol)).toList());
    }

    private static void transactions() {
        print("transaction_key_v0", TransactionLog$.MODULE$.keyToBytes("payments"));
        print("transaction_key_v0_words", TransactionLog$.MODULE$.keyToBytes(WORD));
        print("transaction_value_v0_empty", transaction(kafka.coordinator.transaction.Empty$.MODULE$, -1L));
        print("transaction_value_v0_ongoing", transaction(
            Ongoing$.MODULE$, 1_600_000_000_000L, new TopicPartition("orders", 7), new TopicPartition("orders", 8)));
        print("transaction_value_v0_topics", transaction(
            PrepareCommit$.MODULE$, 1_600_000_000_000L, new TopicPartition("b", 0), new TopicPartition("a", 1)));
        print("transaction_value_v0_complete", transaction(CompleteAbort$.MODULE$, 1_600_000_000_000L));
    }

    private static byte[] transaction(TransactionState state, long startedMs, TopicPartition... partitions) {
        scala.collection.immutable.Set<TopicPartition> given = CollectionConverters.asScala(List.of(partitions)).toSet();
        return TransactionLog$.MODULE$.valueToBytes(new TxnTransitMetadata(
            9_000_000_001L, -1L, (short) 3, (short) -1, 60_000, state, given, startedMs, 1_600_000_005_000L));
    }

    private static void print(String name, byte[] bytes) {
        StringBuilder line = new StringBuilder(name).append(' ');
        for (byte each : bytes) {
            line.append(String.format("%02x", each));
        }
        System.out.write((line + "\n").getBytes(StandardCharsets.UTF_8), 0, line.length() + 1);
    }
}
