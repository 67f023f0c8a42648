import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools, one after the other, as a process on the other side of a pipe requests.
 *
 * A request is the number of texts (int), these texts, and the standard input of the tool; the first
 * text is the tool's class, the others are its arguments. The answer is the exit status (int), the
 * standard output and the standard error. Each text is led by its length in bytes (int).
 */
public class ToolRunner {
    /** The end of a tool that calls Exit. */
    private static class Ended extends Error {
        private static final long serialVersionUID = 1;
    }

    /** What a tool prints until it ends; a tool that unwinds after its exit prints nothing. */
    private static class Captured extends ByteArrayOutputStream {
        @Override
        public synchronized void write(int one) {
            if (status == null) {
                super.write(one);
            }
        }

        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            if (status == null) {
                super.write(bytes, offset, length);
            }
        }
    }

    private static volatile Integer status;
    private static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        var requests = new DataInputStream(new BufferedInputStream(System.in));
        var answers = new DataOutputStream(new BufferedOutputStream(System.out));
        Exit.setExitProcedure((found, message) -> exit(found));
        Exit.setHaltProcedure((found, message) -> exit(found));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                System.exit(0);
                return;
            }
            String[] texts = new String[count];
            for (int number = 0; number < count; number++) {
                texts[number] = new String(bytes(requests), StandardCharsets.UTF_8);
            }
            var out = new Captured();
            var err = new Captured();
            System.setIn(new ByteArrayInputStream(bytes(requests)));
            System.setOut(new PrintStream(out, true));
            System.setErr(new PrintStream(err, true));
            run(texts[0], Arrays.copyOfRange(texts, 1, count));
            answers.writeInt(status);
            for (Captured each : List.of(out, err)) {
                answers.writeInt(each.size());
                each.writeTo(answers);
            }
            answers.flush();
        }
    }

    private static byte[] bytes(DataInputStream requests) throws IOException {
        return requests.readNBytes(requests.readInt());
    }

    /** Run a tool to its end, and leave its exit status. */
    private static void run(String name, String[] arguments) throws Exception {
        status = null;
        hooks.clear();
        Method main = Class.forName(name).getMethod("main", String[].class);
        int found = 0;
        try {
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (status == null) {
                System.err.print("Exception in thread \"main\" ");
                error.getCause().printStackTrace();
                found = 1;
            }
        }
        if (status == null) {
            end(found);
        }
    }

    private static void exit(int found) {
        if (status == null) {
            end(found);
        }
        throw new Ended();
    }

    /** Do what a JVM does at its end. */
    private static void end(int found) {
        List<Runnable> last = List.copyOf(hooks);
        hooks.clear();
        last.forEach(Runnable::run);
        System.out.flush();
        System.err.flush();
        status = found;
    }
}
