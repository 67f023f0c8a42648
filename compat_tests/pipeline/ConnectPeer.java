import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Apache Kafka's own transformations, predicates and converters, called with lines of JSON.
 *
 * Each line is one call with several cases; its answer is one line. A value is written as an array
 * of a tag and its content, so that every class of Java survives: ["i8", 1], ["map", [[k, v]]].
 */
public class ConnectPeer {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode call = MAPPER.readTree(line);
            ArrayNode answers = NODES.arrayNode();
            Call made;
            try {
                made = prepare(call);
            } catch (Throwable thrown) {
                made = null;
                answers.add(failure(thrown));
            }
            if (made != null) {
                for (JsonNode item : call.get("cases")) {
                    answers.add(answer(made, item));
                }
            }
            output.println(MAPPER.writeValueAsString(answers));
            output.flush();
        }
    }

    interface Call {
        JsonNode on(JsonNode item) throws Exception;
    }

    static JsonNode answer(Call call, JsonNode item) {
        try {
            return call.on(item);
        } catch (Throwable thrown) {
            return failure(thrown);
        }
    }

    static ObjectNode failure(Throwable thrown) {
        ObjectNode node = NODES.objectNode();
        node.put("error", thrown.getClass().getName());
        node.put("message", thrown.getMessage());
        return node;
    }

    static Call prepare(JsonNode call) throws Exception {
        Map<String, Object> config = new HashMap<>();
        if (call.has("config")) {
            call.get("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().textValue()));
        }
        switch (call.get("op").textValue()) {
            case "transform": {
                var transformation = (Transformation) instance(call);
                transformation.configure(config);
                return item -> record(transformation.apply(record(item)));
            }
            case "predicate": {
                var predicate = (Predicate) instance(call);
                predicate.configure(config);
                return item -> NODES.booleanNode(predicate.test(record(item)));
            }
            case "read": {
                var converter = (Converter) instance(call);
                converter.configure(config, false);
                return item -> pair(converter.toConnectData("t", bytes(item)));
            }
            case "write": {
                var converter = (Converter) instance(call);
                converter.configure(config, false);
                return item -> {
                    Schema schema = schema(item.get("schema"));
                    return bytes(converter.fromConnectData("t", schema, value(item.get("value"), schema)));
                };
            }
            case "read header": {
                var converter = (HeaderConverter) instance(call);
                return item -> pair(converter.toConnectHeader("t", "h", bytes(item)));
            }
            case "write header": {
                var converter = (HeaderConverter) instance(call);
                return item -> {
                    Schema schema = schema(item.get("schema"));
                    return bytes(converter.fromConnectHeader("t", "h", schema, value(item.get("value"), schema)));
                };
            }
            case "parse":
                return item -> pair(Values.parseString(item.textValue()));
            case "format date": {
                var format = new SimpleDateFormat(call.get("pattern").textValue());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                return item -> NODES.textNode(format.format(new Date(item.longValue())));
            }
            case "parse date": {
                var format = new SimpleDateFormat(call.get("pattern").textValue());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                return item -> {
                    Date found = format.parse(item.textValue(), new ParsePosition(0));
                    return found == null ? NODES.nullNode() : NODES.numberNode(found.getTime());
                };
            }
            default:
                throw new IllegalArgumentException("unknown call");
        }
    }

    static Object instance(JsonNode call) throws Exception {
        return Class.forName(call.get("class").textValue()).getDeclaredConstructor().newInstance();
    }

    static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.textValue());
    }

    static JsonNode bytes(byte[] data) {
        return data == null ? NODES.nullNode() : NODES.textNode(Base64.getEncoder().encodeToString(data));
    }

    static JsonNode pair(SchemaAndValue found) {
        ObjectNode node = NODES.objectNode();
        node.set("schema", found == null ? NODES.nullNode() : schema(found.schema()));
        node.set("value", found == null ? NODES.nullNode() : value(found.value()));
        return node;
    }

    static ConnectRecord<?> record(JsonNode node) {
        Schema keySchema = schema(node.get("key_schema"));
        Schema valueSchema = schema(node.get("value_schema"));
        Object key = value(node.get("key"), keySchema);
        Object value = value(node.get("value"), valueSchema);
        Integer partition = node.get("partition").isNull() ? null : node.get("partition").intValue();
        Long timestamp = node.get("timestamp").isNull() ? null : node.get("timestamp").longValue();
        var headers = new ConnectHeaders();
        for (JsonNode header : node.get("headers")) {
            Schema schema = schema(header.get(1));
            headers.add(header.get(0).textValue(), new SchemaAndValue(schema, value(header.get(2), schema)));
        }
        String topic = node.get("topic").textValue();
        if (node.get("offset").isNull()) {
            return new SourceRecord(Map.of(), Map.of(), topic, partition, keySchema, key, valueSchema, value,
                timestamp, headers);
        }
        return new SinkRecord(topic, partition, keySchema, key, valueSchema, value, node.get("offset").longValue(),
            timestamp, TimestampType.CREATE_TIME, headers);
    }

    static JsonNode record(ConnectRecord<?> record) {
        if (record == null) {
            return NODES.nullNode();
        }
        ObjectNode node = NODES.objectNode();
        node.put("topic", record.topic());
        node.put("partition", record.kafkaPartition());
        node.put("timestamp", record.timestamp());
        node.set("key_schema", schema(record.keySchema()));
        node.set("key", value(record.key()));
        node.set("value_schema", schema(record.valueSchema()));
        node.set("value", value(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(schema(header.schema())).add(value(header.value()));
        }
        return node;
    }

    static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        List<Field> fields = new ArrayList<>();
        for (JsonNode field : node.path("fields")) {
            fields.add(new Field(field.get(0).textValue(), fields.size(), schema(field.get(1))));
        }
        Map<String, String> parameters = null;
        if (node.hasNonNull("parameters")) {
            parameters = new LinkedHashMap<>();
            for (var entry : node.get("parameters").properties()) {
                parameters.put(entry.getKey(), entry.getValue().textValue());
            }
        }
        var type = Schema.Type.valueOf(node.get("type").textValue());
        Schema bare = schema(node, type, null, parameters, fields);
        JsonNode defaultValue = node.path("default");
        return defaultValue.isArray() ? schema(node, type, value(defaultValue, bare), parameters, fields) : bare;
    }

    static Schema schema(JsonNode node, Schema.Type type, Object defaultValue, Map<String, String> parameters,
            List<Field> fields) {
        return new ConnectSchema(type, node.path("optional").booleanValue(), defaultValue,
            node.path("name").textValue(), node.hasNonNull("version") ? node.get("version").intValue() : null,
            node.path("doc").textValue(), parameters, fields, schema(node.get("keys")), schema(node.get("values")));
    }

    static JsonNode schema(Schema schema) {
        if (schema == null) {
            return NODES.nullNode();
        }
        ObjectNode node = NODES.objectNode();
        node.put("type", schema.type().name());
        node.put("optional", schema.isOptional());
        node.put("name", schema.name());
        node.put("version", schema.version());
        node.put("doc", schema.doc());
        if (schema.parameters() == null) {
            node.putNull("parameters");
        } else {
            ObjectNode parameters = node.putObject("parameters");
            schema.parameters().forEach(parameters::put);
        }
        node.set("default", value(schema.defaultValue()));
        ArrayNode fields = node.putArray("fields");
        if (schema.type() == Schema.Type.STRUCT) {
            for (Field field : schema.fields()) {
                fields.addArray().add(field.name()).add(schema(field.schema()));
            }
        }
        boolean isMap = schema.type() == Schema.Type.MAP;
        boolean isArray = schema.type() == Schema.Type.ARRAY;
        node.set("keys", isMap ? schema(schema.keySchema()) : NODES.nullNode());
        node.set("values", isMap || isArray ? schema(schema.valueSchema()) : NODES.nullNode());
        return node;
    }

    static Object value(JsonNode node, Schema schema) {
        if (node == null || node.isNull()) {
            return null;
        }
        JsonNode content = node.get(1);
        switch (node.get(0).textValue()) {
            case "bool":
                return content.booleanValue();
            case "i8":
                return (byte) content.intValue();
            case "i16":
                return (short) content.intValue();
            case "i32":
                return content.intValue();
            case "i64":
                return content.longValue();
            case "f32":
                return Float.parseFloat(content.textValue());
            case "f64":
                return Double.parseDouble(content.textValue());
            case "str":
                return content.textValue();
            case "bytes":
                return bytes(content);
            case "dec":
                return new BigDecimal(new BigInteger(content.get(0).textValue()), content.get(1).intValue());
            case "date":
                return new Date(content.longValue());
            case "list": {
                List<Object> list = new ArrayList<>();
                content.forEach(item -> list.add(value(item, schema == null ? null : schema.valueSchema())));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                content.forEach(item -> map.put(value(item.get(0), schema == null ? null : schema.keySchema()),
                    value(item.get(1), schema == null ? null : schema.valueSchema())));
                return map;
            }
            case "struct": {
                Struct struct = new Struct(schema);
                for (Field field : schema.fields()) {
                    Object found = value(content.get(field.index()), field.schema());
                    if (found != null) {
                        struct.put(field, found);
                    }
                }
                return struct;
            }
            default:
                throw new IllegalArgumentException("unknown tag " + node);
        }
    }

    static ArrayNode tagged(String tag) {
        return NODES.arrayNode().add(tag);
    }

    static JsonNode value(Object value) {
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Boolean found) {
            return tagged("bool").add(found);
        } else if (value instanceof Byte found) {
            return tagged("i8").add(found.intValue());
        } else if (value instanceof Short found) {
            return tagged("i16").add(found.intValue());
        } else if (value instanceof Integer found) {
            return tagged("i32").add(found);
        } else if (value instanceof Long found) {
            return tagged("i64").add(found);
        } else if (value instanceof Float found) {
            return tagged("f32").add(found.toString());
        } else if (value instanceof Double found) {
            return tagged("f64").add(found.toString());
        } else if (value instanceof String found) {
            return tagged("str").add(found);
        } else if (value instanceof byte[] found) {
            return tagged("bytes").add(bytes(found));
        } else if (value instanceof ByteBuffer found) {
            return tagged("bytes").add(bytes(found.array()));
        } else if (value instanceof BigDecimal found) {
            return tagged("dec").add(NODES.arrayNode().add(found.unscaledValue().toString()).add(found.scale()));
        } else if (value instanceof Date found) {
            return tagged("date").add(found.getTime());
        } else if (value instanceof List<?> found) {
            ArrayNode list = NODES.arrayNode();
            found.forEach(item -> list.add(value(item)));
            return tagged("list").add(list);
        } else if (value instanceof Map<?, ?> found) {
            ArrayNode map = NODES.arrayNode();
            found.forEach((key, item) -> map.addArray().add(value(key)).add(value(item)));
            return tagged("map").add(map);
        } else if (value instanceof Struct found) {
            ArrayNode struct = NODES.arrayNode();
            found.schema().fields().forEach(field -> struct.add(value(found.getWithoutDefault(field.name()))));
            return tagged("struct").add(struct);
        }
        throw new IllegalArgumentException("unknown class " + value.getClass());
    }
}
