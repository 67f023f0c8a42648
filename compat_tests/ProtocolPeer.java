import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Kafka's own message classes behind a pipe, driven by test_protocol_jvm.py.
 *
 * A request on standard input is a byte, a message's name (as writeUTF does), a version (short),
 * and a payload led by its length (int); the answer on standard output is a status byte (0 for
 * done, 1 for an exception, whose text follows) and payloads led by their lengths.
 *
 * 'N'  names: answers the names of all messages, one on each line
 * 'D'  decode: bytes in; answers their JSON, and the bytes that Kafka writes for it
 * 'E'  encode: JSON in; answers the bytes that Kafka writes for it
 */
public final class ProtocolPeer {
    private static final String SUFFIX = "JsonConverter.class";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Codec> CODECS = new TreeMap<>();

    private record Codec(Class<?> data, Method toJson, Method fromJson) {
        Message read(ByteBuffer buffer, short version) throws Exception {
            Message message = (Message) data.getDeclaredConstructor().newInstance();
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(buffer.remaining() + " bytes follow the message");
            }
            return message;
        }
    }

    public static void main(String[] arguments) throws Exception {
        findCodecs();
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            int operation = in.read();
            if (operation < 0) {
                return;
            }
            String name = in.readUTF();
            short version = in.readShort();
            byte[] payload = in.readNBytes(in.readInt());
            answer(out, (char) operation, name, version, payload);
            out.flush();
        }
    }

    private static void answer(
            DataOutputStream out, char operation, String name, short version, byte[] payload)
            throws IOException {
        byte[][] results;
        try {
            results = perform(operation, name, version, payload);
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
            out.writeByte(1);
            send(out, cause.toString().getBytes(StandardCharsets.UTF_8));
            return;
        }
        out.writeByte(0);
        for (byte[] result : results) {
            send(out, result);
        }
    }

    private static byte[][] perform(char operation, String name, short version, byte[] payload)
            throws Exception {
        if (operation == 'N') {
            return new byte[][] {String.join("\n", CODECS.keySet()).getBytes(StandardCharsets.UTF_8)};
        }
        Codec codec = CODECS.get(name);
        if (codec == null) {
            throw new IllegalArgumentException("there is no message " + name);
        }
        if (operation == 'E') {
            Object message = codec.fromJson.invoke(null, JSON.readTree(payload), version);
            return new byte[][] {written((Message) message, version)};
        }
        Message message = codec.read(ByteBuffer.wrap(payload), version);
        JsonNode json = (JsonNode) codec.toJson.invoke(null, message, version, false);
        return new byte[][] {JSON.writeValueAsBytes(json), written(message, version)};
    }

    private static byte[] written(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static void send(DataOutputStream out, byte[] payload) throws IOException {
        out.writeInt(payload.length);
        out.write(payload);
    }

    /** Every generated message has a JSON converter beside it; those are found by their names. */
    private static void findCodecs() throws Exception {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!path.contains("kafka") || !path.endsWith(".jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (Enumeration<JarEntry> all = jar.entries(); all.hasMoreElements();) {
                    String entry = all.nextElement().getName();
                    if (entry.endsWith(SUFFIX) && !entry.contains("$")) {
                        addCodec(entry.substring(0, entry.length() - SUFFIX.length()));
                    }
                }
            }
        }
    }

    private static void addCodec(String path) throws Exception {
        String className = path.replace('/', '.');
        Class<?> data;
        try {
            data = Class.forName(className);
        } catch (ClassNotFoundException e) {
            return; // a converter of something else
        }
        Class<?> converter = Class.forName(className + "JsonConverter");
        Method toJson = converter.getMethod("write", data, short.class, boolean.class);
        Method fromJson = converter.getMethod("read", JsonNode.class, short.class);
        CODECS.put(data.getSimpleName(), new Codec(data, toJson, fromJson));
    }
}
