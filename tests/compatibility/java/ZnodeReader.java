import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.cluster.Broker;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.controller.ReplicaAssignment;
import kafka.zk.FeatureZNode;
import kafka.zk.KafkaZkClient;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import scala.Option;
import scala.collection.JavaConverters;

/**
 * Reads a cluster's znodes through Kafka's own code and prints one fact a line, sorted where there is no order.
 *
 * Arguments: the connect string.
 */
public final class ZnodeReader {
    private ZnodeReader() {
    }

    public static void main(String[] arguments) throws Exception {
        KafkaZkClient zk = KafkaZkClient.apply(arguments[0], false, 10000, 10000, 10, Time.SYSTEM, "test", "test",
            Option.empty(), Option.empty());
        try {
            System.out.println("fact cluster id " + zk.getClusterId().get());
            System.out.println("fact controller " + zk.getControllerId().get());
            System.out.println("fact controller epoch " + zk.getControllerEpoch().get()._1());
            printBrokers(zk);
            printTopics(zk);
            FeatureZNode features = FeatureZNode.decode(zk.getDataAndVersion(FeatureZNode.path())._1().get());
            System.out.println("fact features " + features.status() + " " + features.features().empty());
        } finally {
            zk.close();
        }
    }

    private static void printBrokers(KafkaZkClient zk) {
        TreeSet<String> lines = new TreeSet<>();
        scala.collection.Iterator<scala.Tuple2<Broker, Object>> found = zk.getAllBrokerAndEpochsInCluster().iterator();
        while (found.hasNext()) {
            scala.Tuple2<Broker, Object> entry = found.next();
            Broker broker = entry._1();
            String end = broker.endPoints().head().connectionString();
            String rack = broker.rack().isEmpty() ? "none" : broker.rack().get();
            lines.add("fact broker " + broker.id() + " " + end + " rack " + rack + " epoch " + entry._2());
        }
        lines.forEach(System.out::println);
    }

    private static void printTopics(KafkaZkClient zk) {
        TreeMap<String, String> lines = new TreeMap<>();
        List<TopicPartition> partitions = new ArrayList<>();
        scala.collection.Iterator<scala.Tuple2<TopicPartition, ReplicaAssignment>> assigned =
            zk.getFullReplicaAssignmentForTopics(zk.getAllTopicsInCluster(false)).iterator();
        while (assigned.hasNext()) {
            scala.Tuple2<TopicPartition, ReplicaAssignment> entry = assigned.next();
            ReplicaAssignment each = entry._2();
            partitions.add(entry._1());
            lines.put("assignment " + entry._1(), each.replicas().mkString(",") + " adding "
                + each.addingReplicas().mkString(",") + " removing " + each.removingReplicas().mkString(","));
            Properties config = zk.getEntityConfigs("topics", entry._1().topic());
            lines.put("config " + entry._1().topic(), new TreeMap<>(config).toString());
        }
        scala.collection.Iterator<scala.Tuple2<TopicPartition, LeaderIsrAndControllerEpoch>> states =
            zk.getTopicPartitionStates(JavaConverters.asScalaBuffer(partitions)).iterator();
        while (states.hasNext()) {
            scala.Tuple2<TopicPartition, LeaderIsrAndControllerEpoch> entry = states.next();
            LeaderIsrAndControllerEpoch each = entry._2();
            List<Object> isr = new ArrayList<>(JavaConverters.seqAsJavaList(each.leaderAndIsr().isr()));
            Collections.sort(isr, (one, other) -> (Integer) one - (Integer) other);
            lines.put("state " + entry._1(), "leader " + each.leaderAndIsr().leader() + " epoch "
                + each.leaderAndIsr().leaderEpoch() + " isr " + isr + " controller epoch " + each.controllerEpoch());
        }
        lines.forEach((name, value) -> System.out.println("fact " + name + " " + value));
    }
}
