package kafka.log;

import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import kafka.server.BrokerTopicStats;
import kafka.server.LogDirFailureChannel;
import kafka.utils.KafkaScheduler;
import kafka.utils.Throttler;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import scala.Tuple2;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Runs the cleaner of Apache Kafka once over each of some logs on disk, as a broker's cleaner thread would, and tells
 * what it took.
 *
 * Arguments: segment.bytes, index.interval.bytes, log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.size; then for
 * each log the directory of its partition, its first dirty offset, its first uncleanable offset and
 * delete.retention.ms. A log beside which there is no marker of a clean shutdown is recovered first.
 */
public final class CleanerRun {
    private static final int LOG_ARGUMENTS = 4;

    private final Properties topic = new Properties();
    private final int dedupeBytes;
    private final int ioBytes;
    private final KafkaScheduler scheduler = new KafkaScheduler(1, "scheduler-", true);

    private CleanerRun(String segmentBytes, String indexInterval, String dedupeBytes, String ioBytes) {
        topic.put("cleanup.policy", "compact");
        topic.put("segment.bytes", segmentBytes);
        topic.put("index.interval.bytes", indexInterval);
        topic.put("file.delete.delay.ms", "0");
        this.dedupeBytes = Integer.parseInt(dedupeBytes);
        this.ioBytes = Integer.parseInt(ioBytes);
        scheduler.startup();
    }

    public static void main(String[] arguments) throws Exception {
        CleanerRun run = new CleanerRun(arguments[0], arguments[1], arguments[2], arguments[3]);
        for (int at = 4; at < arguments.length; at += LOG_ARGUMENTS) {
            run.clean(
                new File(arguments[at]),
                Long.parseLong(arguments[at + 1]),
                Long.parseLong(arguments[at + 2]),
                arguments[at + 3]);
        }
        System.exit(0);
    }

    private void clean(File directory, long firstDirty, long uncleanable, String deleteRetention) throws Exception {
        topic.put("delete.retention.ms", deleteRetention);
        boolean wasClosed = new File(directory.getParentFile(), ".kafka_cleanshutdown").exists();
        Log log = Log$.MODULE$.apply(
            directory, new LogConfig(topic, LogConfig.apply$default$2()), 0L, wasClosed ? uncleanable : 0L, scheduler,
            new BrokerTopicStats(), Time.SYSTEM, Integer.MAX_VALUE, Integer.MAX_VALUE, new LogDirFailureChannel(1));
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(dedupeBytes, "MD5"), ioBytes / 2, 1048588, 0.9,
            new Throttler(Double.MAX_VALUE, 300, true, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM,
            new AbstractFunction1<TopicPartition, BoxedUnit>() {
                @Override
                public BoxedUnit apply(TopicPartition partition) {
                    return BoxedUnit.UNIT;
                }
            });
        long began = System.nanoTime();
        long cpuBegan = cpuNanos();
        Tuple2<Object, CleanerStats> done = cleaner.clean(
            new LogToClean(log.topicPartition(), log, firstDirty, uncleanable, false));
        double seconds = (System.nanoTime() - began) / 1e9;
        double cpu = (cpuNanos() - cpuBegan) / 1e9;
        CleanerStats stats = done._2();
        System.out.printf(
            "RESULT {\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"end_offset\": %d, \"records_read\": %d, "
                + "\"records_kept\": %d, \"bytes_written\": %d, \"peak_rss_kb\": %d}%n",
            seconds, cpu, (Long) done._1(), stats.messagesRead(), stats.messagesWritten(), stats.bytesWritten(),
            peakRss());
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long peakRss() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        throw new IllegalStateException("the kernel does not tell");
    }
}
