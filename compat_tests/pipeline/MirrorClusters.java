import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what Kafka's reader of MirrorMaker 2's topics finds: the target's address, the source's alias, a group. */
public class MirrorClusters {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        System.out.println("checkpoints=" + new TreeSet<>(RemoteClusterUtils.checkpointTopics(properties)));
        System.out.println("heartbeats=" + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(properties)));
        System.out.println("upstream=" + new TreeSet<>(RemoteClusterUtils.upstreamClusters(properties)));
        System.out.println("hops=" + RemoteClusterUtils.replicationHops(properties, arguments[1]));
        Map<String, Long> offsets = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> found =
            RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(30));
        found.forEach((where, offset) -> offsets.put(where.toString(), offset.offset()));
        System.out.println("offsets=" + offsets);
    }
}
