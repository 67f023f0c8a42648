import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of Java's client, which uses the second version where the server has it. */
public class Transactions {
    private static String bootstrap;

    private static KafkaProducer<String, String> producer(String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", transactionalId);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String topic = arguments[2];
        String transactionalId = arguments[3];
        switch (arguments[1]) {
            case "alternate" -> alternate(topic, transactionalId, Integer.parseInt(arguments[4]));
            case "fence" -> fence(topic, transactionalId);
            case "copy" -> copy(
                topic, transactionalId, arguments[4], arguments[5], Integer.parseInt(arguments[6]));
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    /** Transactions of five records each; every second one is aborted. */
    private static void alternate(String topic, String transactionalId, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(transactionalId)) {
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    producer.send(new ProducerRecord<>(topic, i % 3, null, number + "-" + i)).get();
                }
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    /** A second producer of the same id starts while the first is in a transaction. */
    private static void fence(String topic, String transactionalId) throws Exception {
        KafkaProducer<String, String> first = producer(transactionalId);
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, 0, null, "first")).get();
        try (KafkaProducer<String, String> second = producer(transactionalId)) {
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, 1, null, "second")).get();
            try {
                first.send(new ProducerRecord<>(topic, 2, null, "first"));
                first.commitTransaction();
                System.out.println("first: committed");
            } catch (KafkaException refused) {
                System.out.println("first: " + refused.getClass().getSimpleName());
            }
            second.commitTransaction();
        }
        first.close(Duration.ZERO);
    }

    /** Copies a topic, each poll in a transaction with its offsets. */
    private static void copy(
        String topic, String transactionalId, String sink, String group, int count
    ) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", "50");
        try (KafkaProducer<String, String> producer = producer(transactionalId);
             KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                 properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int copied = 0;
            while (copied < count) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                var records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(sink, record.partition(), null, record.value()));
                    offsets.put(
                        new TopicPartition(topic, record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                copied += records.count();
            }
        }
    }
}
