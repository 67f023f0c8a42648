import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Keeps one record in flight for each partition until standard input ends.
 *
 * <p>Arguments: topic, partitions, prefix of the values, pause between two records in
 * milliseconds, and the client's properties as NAME=VALUE. Prints a line for each event:
 * sent PARTITION VALUE; acked PARTITION VALUE OFFSET; failed PARTITION VALUE ERROR.
 */
public class Pinger {
    private static KafkaProducer<String, String> producer;
    private static ScheduledExecutorService sender;
    private static String topic;
    private static String prefix;
    private static int pauseMs;
    private static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        topic = arguments[0];
        prefix = arguments[2];
        pauseMs = Integer.parseInt(arguments[3]);
        for (int number = 4; number < arguments.length; number++) {
            String[] property = arguments[number].split("=", 2);
            properties.put(property[0], property[1]);
        }
        sender = Executors.newSingleThreadScheduledExecutor();
        producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        for (int partition = 0; partition < Integer.parseInt(arguments[1]); partition++) {
            int number = partition;
            sender.execute(() -> send(number, 0));
        }
        while (System.in.read() >= 0) {
            // The parent process only closes the pipe.
        }
        stopping = true;
        sender.shutdown();
        sender.awaitTermination(10, TimeUnit.SECONDS);
        producer.close();
        System.out.flush();
    }

    private static void send(int partition, int number) {
        if (stopping) {
            return;
        }
        String value = prefix + "-" + partition + "-" + number;
        print("sent", partition, value);
        try {
            producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                if (error == null) {
                    print("acked", partition, value + " " + metadata.offset());
                } else {
                    print("failed", partition, value + " " + error);
                }
                schedule(partition, number + 1);
            });
        } catch (RuntimeException error) {
            print("failed", partition, value + " " + error);
            schedule(partition, number + 1);
        }
    }

    private static void schedule(int partition, int number) {
        if (!stopping) {
            try {
                sender.schedule(() -> send(partition, number), pauseMs, TimeUnit.MILLISECONDS);
            } catch (java.util.concurrent.RejectedExecutionException ended) {
                // The program stops.
            }
        }
    }

    private static synchronized void print(String what, int partition, String rest) {
        System.out.println(what + " " + partition + " " + rest);
    }
}
