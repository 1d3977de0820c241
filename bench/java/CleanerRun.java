package kafka.log;

import java.io.File;
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
 * Runs the cleaner of Apache Kafka once over a log on disk, as a broker's cleaner thread would, and tells what it took.
 *
 * Arguments: directory of the partition, its first uncleanable offset, segment.bytes, index.interval.bytes,
 * log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.size, delete.retention.ms.
 */
public final class CleanerRun {
    private CleanerRun() {
    }

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        long uncleanable = Long.parseLong(arguments[1]);
        Properties topic = new Properties();
        topic.put("cleanup.policy", "compact");
        topic.put("segment.bytes", arguments[2]);
        topic.put("index.interval.bytes", arguments[3]);
        topic.put("delete.retention.ms", arguments[6]);
        topic.put("file.delete.delay.ms", "0");
        LogConfig config = new LogConfig(topic, LogConfig.apply$default$2());
        KafkaScheduler scheduler = new KafkaScheduler(1, "scheduler-", true);
        scheduler.startup();
        Log log = Log$.MODULE$.apply(
            directory, config, 0L, uncleanable, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            3600000, 600000, new LogDirFailureChannel(1));
        Cleaner cleaner = new Cleaner(
            0,
            new SkimpyOffsetMap(Integer.parseInt(arguments[4]), "MD5"),
            Integer.parseInt(arguments[5]) / 2,
            1048588,
            0.9,
            new Throttler(Double.MAX_VALUE, 300, true, "cleaner-io", "bytes", Time.SYSTEM),
            Time.SYSTEM,
            new AbstractFunction1<TopicPartition, BoxedUnit>() {
                @Override
                public BoxedUnit apply(TopicPartition partition) {
                    return BoxedUnit.UNIT;
                }
            });
        long began = System.nanoTime();
        long cpuBegan = cpuNanos();
        Tuple2<Object, CleanerStats> done = cleaner.clean(
            new LogToClean(new TopicPartition("t", 0), log, 0L, uncleanable, false));
        double seconds = (System.nanoTime() - began) / 1e9;
        double cpu = (cpuNanos() - cpuBegan) / 1e9;
        CleanerStats stats = done._2();
        System.out.printf(
            "RESULT {\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"end_offset\": %d, \"records_read\": %d, "
                + "\"records_kept\": %d, \"bytes_written\": %d, \"peak_rss_kb\": %d}%n",
            seconds, cpu, (Long) done._1(), stats.messagesRead(), stats.messagesWritten(), stats.bytesWritten(),
            peakRss());
        System.exit(0);
    }

    private static long cpuNanos() {
        var system = (com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
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
