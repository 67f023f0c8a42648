import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.runtime.ConnectorConfig;

/** Answers lines of words, separated by tabs, with what MirrorMaker 2's classes make of them. */
public class MirrorMakerOracle {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, "UTF-8").useDelimiter("\n");
        while (lines.hasNext()) {
            String[] words = lines.next().split("\t", -1);
            System.out.println(answer(words));
        }
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "heartbeat":
                return bytes(new Heartbeat(words[1], words[2], Long.parseLong(words[3])));
            case "checkpoint":
                TopicPartition where = new TopicPartition(words[2], Integer.parseInt(words[3]));
                return bytes(new Checkpoint(words[1], where, Long.parseLong(words[4]), Long.parseLong(words[5]), words[6]));
            case "sync":
                return bytes(sync(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4])));
            case "policy":
                return policy(words);
            case "definition":
                return definition(words[1]);
            case "errors":
                return errors(words);
            default:
                return translations(words);
        }
    }

    static Object sync(String topic, int partition, long upstream, long downstream) throws Exception {
        Constructor<?> made = Class.forName("org.apache.kafka.connect.mirror.OffsetSync")
            .getDeclaredConstructor(TopicPartition.class, long.class, long.class);
        made.setAccessible(true);
        return made.newInstance(new TopicPartition(topic, partition), upstream, downstream);
    }

    static byte[] part(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(record);
    }

    static String bytes(Object record) throws Exception {
        return HEX.formatHex(part(record, "recordKey")) + " " + HEX.formatHex(part(record, "recordValue"));
    }

    /** Words: identity or default, separator, whether internal topics have it, source, target, topic. */
    static String policy(String[] words) throws Exception {
        DefaultReplicationPolicy policy =
            words[1].equals("identity") ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("replication.policy.separator", words[2]);
        properties.put("replication.policy.internal.topic.separator.enabled", words[3]);
        properties.put("source.cluster.alias", words[4]);
        policy.configure(properties);
        String topic = words[6];
        List<Object> found = new ArrayList<>(List.of(
            policy.formatRemoteTopic(words[4], topic),
            String.valueOf(policy.topicSource(topic)),
            String.valueOf(policy.upstreamTopic(topic)),
            policy.isInternalTopic(topic),
            policy.isCheckpointsTopic(topic),
            policy.offsetSyncsTopic(words[5]),
            policy.checkpointsTopic(words[4]),
            isCycle(policy, words[4], words[5], topic),
            policy.isHeartbeatsTopic(topic)));
        return String.join("\t", found.stream().map(String::valueOf).toList());
    }

    static Object isCycle(ReplicationPolicy policy, String source, String target, String topic) throws Exception {
        MirrorSourceConnector connector = new MirrorSourceConnector();
        set(connector, "replicationPolicy", policy);
        set(connector, "sourceAndTarget", new SourceAndTarget(source, target));
        Method method = MirrorSourceConnector.class.getDeclaredMethod("isCycle", String.class);
        method.setAccessible(true);
        return method.invoke(connector, topic);
    }

    static void set(Object target, String name, Object value) throws Exception {
        Field field = MirrorSourceConnector.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    static ConfigDef config(String kind) throws Exception {
        Class<?> found = Class.forName("org.apache.kafka.connect.mirror.Mirror" + kind + "Connector");
        return ((Connector) found.getDeclaredConstructor().newInstance()).config();
    }

    static boolean isOwn(String name) {
        return !ConnectorConfig.configDef().names().contains(name);
    }

    /** The connector's own properties in their order. */
    static String definition(String kind) throws Exception {
        List<String> found = new ArrayList<>();
        for (ConfigDef.ConfigKey key : config(kind).configKeys().values()) {
            if (isOwn(key.name)) {
                String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "required";
                found.add(String.join(" ", key.name, key.type.name(), value, key.importance.name(), key.displayName));
            }
        }
        return String.join("\t", found);
    }

    /** Words: the name, a connector, properties as NAME=VALUE. */
    static String errors(String[] words) throws Exception {
        Map<String, String> given = new LinkedHashMap<>();
        for (int number = 2; number < words.length; number++) {
            String[] pair = words[number].split("=", 2);
            given.put(pair[0], pair[1]);
        }
        List<String> found = new ArrayList<>();
        for (ConfigValue value : config(words[1]).validate(given)) {
            if (isOwn(value.name())) {
                found.addAll(value.errorMessages());
            }
        }
        return String.join("\t", found);
    }

    /** Words: the name, upstream:downstream pairs separated by commas, offsets to translate. */
    static String translations(String[] words) throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.connect.mirror.OffsetSyncStore");
        Constructor<?> made = kind.getDeclaredConstructor();
        made.setAccessible(true);
        Object store = made.newInstance();
        Field read = kind.getDeclaredField("readToEnd");
        read.setAccessible(true);
        read.set(store, true);
        Method take = kind.getDeclaredMethod("handleRecord", ConsumerRecord.class);
        take.setAccessible(true);
        for (String pair : words[1].split(",")) {
            String[] offsets = pair.split(":");
            Object sync = sync("t", 0, Long.parseLong(offsets[0]), Long.parseLong(offsets[1]));
            take.invoke(store, new ConsumerRecord<>("s", 0, 0L, part(sync, "recordKey"), part(sync, "recordValue")));
        }
        Method translate =
            kind.getDeclaredMethod("translateDownstream", String.class, TopicPartition.class, long.class);
        translate.setAccessible(true);
        List<String> found = new ArrayList<>();
        for (String offset : words[2].split(",")) {
            found.add(String.valueOf(translate.invoke(store, "g", new TopicPartition("t", 0), Long.parseLong(offset))));
        }
        return String.join(" ", found);
    }
}
