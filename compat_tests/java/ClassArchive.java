import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.utils.Exit;

/** Runs a broker and the tools in one JVM, which archives their classes when it ends. */
public class ClassArchive {
    private static final String TOOLS = "org.apache.kafka.tools.";

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        Path file = directory.resolve("server.properties");
        Path data = directory.resolve("data");
        Files.writeString(file, properties(data, port, Integer.parseInt(arguments[2])));
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("a tool ended with " + status + ": " + message);
        });
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        run("kafka.tools.StorageTool",
            "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "--standalone", "-c", file.toString());
        Thread broker = new Thread(() -> run("kafka.Kafka", file.toString()));
        broker.setDaemon(true);
        broker.start();
        while (!answers(port)) {
            Thread.sleep(50);
        }
        runTools("127.0.0.1:" + port);
        run(TOOLS + "DumpLogSegments",
            "--files", data.resolve("made-0/00000000000000000000.log").toString());
        System.exit(0);
    }

    private static String properties(Path data, int port, int controllerPort) {
        String listeners =
            "PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:" + controllerPort;
        return String.join("\n",
            "process.roles=broker,controller",
            "node.id=1",
            "controller.quorum.bootstrap.servers=127.0.0.1:" + controllerPort,
            "listeners=" + listeners,
            "advertised.listeners=" + listeners,
            "controller.listener.names=CONTROLLER",
            "log.dirs=" + data,
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "group.initial.rebalance.delay.ms=0");
    }

    private static void runTools(String bootstrap) {
        String[] server = {"--bootstrap-server", bootstrap};
        run(TOOLS + "TopicCommand", server, "--create", "--topic", "made");
        run(TOOLS + "TopicCommand", server, "--describe");
        System.setIn(new ByteArrayInputStream("a\nb\n".getBytes()));
        run(TOOLS + "ConsoleProducer", server, "--topic", "made");
        run(TOOLS + "consumer.ConsoleConsumer", server,
            "--topic", "made", "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000");
        run("kafka.admin.ConfigCommand", server, "--describe", "--entity-type", "users");
        run(TOOLS + "AclCommand", server, "--list");
        run(TOOLS + "consumer.group.ConsumerGroupCommand", server, "--list");
        run(TOOLS + "TransactionsCommand", server, "list");
        run(TOOLS + "FeatureCommand", server, "describe");
        run(TOOLS + "MetadataQuorumCommand", server, "describe", "--status");
    }

    private static void run(String tool, String[] first, String... more) {
        String[] arguments = new String[first.length + more.length];
        System.arraycopy(first, 0, arguments, 0, first.length);
        System.arraycopy(more, 0, arguments, first.length, more.length);
        run(tool, arguments);
    }

    /** Run a program. One that fails has loaded its classes too. */
    private static void run(String tool, String... arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            System.err.println(tool + " " + error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean answers(int port) {
        try (Socket connection = new Socket("127.0.0.1", port)) {
            return true;
        } catch (java.io.IOException error) {
            return false;
        }
    }
}
