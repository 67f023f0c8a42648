import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams with exactly_once_v2 for measurements: one application for each line of input.
 *
 * <p>Arguments: bootstrap, state directory, threads. Lines: "copy SOURCE TARGET" sends the records of
 * a topic to another, "count SOURCE TARGET" counts the records of each value. The application id is
 * the name of the source. All other settings are the defaults.
 */
public class StreamsBench {
    public static void main(String[] arguments) throws Exception {
        List<KafkaStreams> started = new ArrayList<>();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> started.forEach(KafkaStreams::close)));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            KafkaStreams streams =
                new KafkaStreams(topology(words).build(), properties(arguments, words[1]));
            started.add(streams);
            streams.start();
        }
        System.exit(0);
    }

    private static StreamsBuilder topology(String[] words) {
        StreamsBuilder builder = new StreamsBuilder();
        if (words[0].equals("copy")) {
            builder.stream(words[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .to(words[2], Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        } else {
            builder.stream(words[1], Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .groupBy((key, value) -> value, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to(words[2], Produced.with(Serdes.String(), Serdes.Long()));
        }
        return builder;
    }

    private static Properties properties(String[] arguments, String name) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[2]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        properties.put("auto.offset.reset", "earliest");
        return properties;
    }
}
