// What Kafka 2.7.2 itself makes of sets of records: conversions at an append (LogValidator) and for old consumers
// (RecordsUtil), printed as lines of words. The times and offsets are fixed, so that two runs print the same.
//
//   set NAME HEX                                          what a producer sends, or a log holds
//   append NAME FORMAT CODEC TIME -> MAXTIME COUNT HEX    stored from offset 1000 on, in epoch 7, at time 5000
//   append NAME FORMAT CODEC TIME -> error CLASS
//   fetch NAME FORMAT FIRST -> HEX                        for a consumer of that format that asked for offset FIRST
//
// With the name of a file it reads that instead, a set in hex on each line, and prints the records of each on a line.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import kafka.api.ApiVersion$;
import kafka.common.LongRef;
import kafka.common.RecordValidationException;
import kafka.log.AppendOrigin;
import kafka.log.LogValidator;
import kafka.log.LogValidator$;
import kafka.message.CompressionCodec;
import kafka.message.CompressionCodec$;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

public final class OldFormats {
    private static final CompressionType[] OLD_CODECS = {
        CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4
    };
    private static final Header[] HEADERS = {new RecordHeader("name", "content".getBytes())};
    private static final SimpleRecord[] RECORDS = {
        new SimpleRecord(1000, "key".getBytes(), "value".getBytes()),
        new SimpleRecord(3000, (byte[]) null, "".getBytes()),
        new SimpleRecord(2000, "".getBytes(), null),
        new SimpleRecord(-1, "last".getBytes(), new byte[70])
    };

    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 1) {
            for (String line : Files.readAllLines(Path.of(arguments[0])))
                System.out.println(records(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(line)))));
            return;
        }
        Map<String, MemoryRecords> sent = sent();
        for (Map.Entry<String, MemoryRecords> set : sent.entrySet()) {
            System.out.println("set " + set.getKey() + " " + hex(set.getValue().buffer()));
            appends(set.getKey(), set.getValue());
        }
        for (Map.Entry<String, MemoryRecords> set : held().entrySet()) {
            System.out.println("set " + set.getKey() + " " + hex(set.getValue().buffer()));
            fetches(set.getKey(), set.getValue());
        }
    }

    private static Map<String, MemoryRecords> sent() {
        Map<String, MemoryRecords> sets = new LinkedHashMap<>();
        for (byte magic = 0; magic <= 2; magic++)
            for (CompressionType codec : OLD_CODECS)
                sets.put("sent-" + magic + "-" + codec.name, build(magic, codec, TimestampType.CREATE_TIME, 0, 1));
        sets.put("sent-2-zstd", build((byte) 2, CompressionType.ZSTD, TimestampType.CREATE_TIME, 0, 1));
        MemoryRecords atZero = build((byte) 1, CompressionType.GZIP, TimestampType.CREATE_TIME, 0, 1);
        atZero.buffer().putLong(0, 0);
        sets.put("wrapper-at-0", atZero);
        sets.put("wrapper-with-gaps", build((byte) 1, CompressionType.GZIP, TimestampType.CREATE_TIME, 0, 3));
        MemoryRecords later = build((byte) 1, CompressionType.LZ4, TimestampType.CREATE_TIME, 0, 1);
        later.buffer().putLong(0, 50);
        sets.put("wrapper-at-50", later);
        sets.put("stamped", build((byte) 1, CompressionType.NONE, TimestampType.LOG_APPEND_TIME, 0, 1));
        sets.put("with-headers", MemoryRecords.withRecords((byte) 2, CompressionType.NONE,
            new SimpleRecord(1000, "key".getBytes(), "value".getBytes(), HEADERS)));
        sets.put("idempotent", MemoryRecords.withIdempotentRecords(CompressionType.NONE, 9, (short) 3, 4, RECORDS));
        sets.put("transactional", MemoryRecords.withTransactionalRecords(CompressionType.GZIP, 9, (short) 3, 4, RECORDS));
        return sets;
    }

    private static Map<String, MemoryRecords> held() {
        Map<String, MemoryRecords> sets = new LinkedHashMap<>();
        for (byte magic = 1; magic <= 2; magic++)
            for (CompressionType codec : OLD_CODECS)
                for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME})
                    sets.put("held-" + magic + "-" + codec.name + "-" + type.name, build(magic, codec, type, 100, 2));
        return sets;
    }

    private static MemoryRecords build(byte magic, CompressionType codec, TimestampType type, long base, int distance) {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(4096), magic, codec, type, base, 4000);
        for (int index = 0; index < RECORDS.length; index++)
            builder.appendWithOffset(base + (long) index * distance, RECORDS[index]);
        return builder.build();
    }

    private static void appends(String name, MemoryRecords set) {
        for (byte format = 0; format <= 2; format++)
            for (String codec : new String[] {"producer", "none", "gzip", "lz4"})
                for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                    String what = String.join(" ", "append", name, Byte.toString(format), codec, type.name);
                    System.out.println(what + " -> " + append(copy(set), format, codec, type));
                }
    }

    private static String append(MemoryRecords set, byte format, String codec, TimestampType type) {
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : set.batches())
            if (batch.compressionType() != CompressionType.NONE)
                source = batch.compressionType();
        CompressionType target = codec.equals("producer") ? source : CompressionType.forName(codec);
        LongRef offset = new LongRef(1000);
        try {
            LogValidator.ValidationAndOffsetAssignResult result =
                LogValidator$.MODULE$.validateMessagesAndAssignOffsets(
                    set, new TopicPartition("topic", 0), offset, Time.SYSTEM, 5000, codec(source), codec(target), false,
                    format, type, Long.MAX_VALUE, 7, AppendOrigin.Client$.MODULE$, ApiVersion$.MODULE$.latestVersion(),
                    new BrokerTopicStats());
            return result.maxTimestamp() + " " + (offset.value() - 1000) + " " + hex(result.validatedRecords().buffer());
        } catch (RecordValidationException error) {
            return "error " + error.invalidException().getClass().getSimpleName();
        } catch (RuntimeException error) {
            return "error " + error.getClass().getSimpleName();
        }
    }

    private static CompressionCodec codec(CompressionType type) {
        return CompressionCodec$.MODULE$.getCompressionCodec(type.id);
    }

    private static void fetches(String name, MemoryRecords set) {
        byte magic = set.batches().iterator().next().magic();
        for (byte format = 0; format < magic; format++)
            for (long first = 100; first <= 103; first += 3) {
                MemoryRecords converted = (MemoryRecords) copy(set).downConvert(format, first, Time.SYSTEM).records();
                System.out.println("fetch " + name + " " + format + " " + first + " -> " + hex(converted.buffer()));
            }
    }

    private static String records(MemoryRecords set) {
        StringBuilder text = new StringBuilder("records");
        for (RecordBatch batch : set.batches()) {
            batch.ensureValid();
            for (Record record : batch)
                text.append(' ').append(record.offset()).append(':').append(record.timestamp())
                    .append(':').append(record.hasKey() ? hex(record.key()) : "null")
                    .append(':').append(record.hasValue() ? hex(record.value()) : "null");
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int index = 0; index < bytes.length; index++)
            bytes[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        return bytes;
    }

    private static MemoryRecords copy(MemoryRecords set) {
        ByteBuffer from = set.buffer();
        ByteBuffer to = ByteBuffer.allocate(from.remaining());
        to.put(from).flip();
        return MemoryRecords.readableRecords(to);
    }

    private static String hex(ByteBuffer buffer) {
        ByteBuffer from = buffer.duplicate();
        StringBuilder text = new StringBuilder();
        while (from.hasRemaining()) {
            int value = from.get() & 0xff;
            text.append(Character.forDigit(value >> 4, 16)).append(Character.forDigit(value & 15, 16));
        }
        return text.toString();
    }
}
