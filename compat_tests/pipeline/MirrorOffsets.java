import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints the offsets of a group as MirrorMaker 2 translated them: arguments are the target's address, the source's alias, the group. */
public class MirrorOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", arguments[0]);
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(30));
        for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : offsets.entrySet()) {
            System.out.println(entry.getKey() + " " + entry.getValue().offset());
        }
    }
}
