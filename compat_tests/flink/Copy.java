import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies a topic into another with exactly-once delivery, and fails once by itself.
 *
 * <p>Arguments: bootstrap, input, output, transaction naming strategy, directory of checkpoints,
 * the checkpoint to begin from or "none".
 */
public class Copy {
    private static final int FAILS_AT_RECORD = 1000;

    private static class FailsOnce implements MapFunction<String, String> {
        private static final AtomicInteger records = new AtomicInteger();

        @Override
        public String map(String value) {
            if (records.incrementAndGet() == FAILS_AT_RECORD) {
                throw new IllegalStateException("planted failure");
            }
            return value;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", "500 ms");
        configuration.setString("execution.checkpointing.storage", "filesystem");
        configuration.setString("execution.checkpointing.dir", "file://" + arguments[4]);
        configuration.setString(
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        configuration.setString("execution.checkpointing.tolerable-failed-checkpoints", "1000");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1000");
        configuration.setString("restart-strategy.fixed-delay.delay", "200 ms");
        if (!arguments[5].equals("none")) {
            configuration.setString("execution.state-recovery.path", arguments[5]);
        }
        KafkaSource<String> source =
            KafkaSource.<String>builder()
                .setBootstrapServers(arguments[0])
                .setTopics(arguments[1])
                .setGroupId(arguments[2])
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSink<String> sink =
            KafkaSink.<String>builder()
                .setBootstrapServers(arguments[0])
                .setRecordSerializer(
                    KafkaRecordSerializationSchema.builder()
                        .setTopic(arguments[2])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(arguments[2])
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[3]))
                // Longer than any test: what a killed job left open, its successor has to abort.
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        environment
            .fromSource(source, WatermarkStrategy.noWatermarks(), "source")
            .uid("source")
            .map(new FailsOnce())
            .uid("map")
            .sinkTo(sink)
            .uid("sink");
        environment.execute("copy");
    }
}
