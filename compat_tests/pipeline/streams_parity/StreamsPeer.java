import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Named topologies of Kafka Streams, run by TopologyTestDriver on lines of JSON.
 *
 * A line is {"topology": name, "cases": [[[topic, key, value, timestamp], ..], ..]}; its answer is one
 * line: for each case a list with the outputs of each record, [key, window, value, timestamp]. Keys and
 * values are texts; a window is [start, end] or null. With arguments (bootstrap servers, a directory of
 * state, then topologies and their output topics) it runs the topologies on a cluster instead.
 */
public class StreamsPeer {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    static final Serde<String> TEXT = Serdes.String();
    static final Serde<Long> LONG = Serdes.Long();
    static final Duration SIZE = Duration.ofMillis(100);
    static final Duration ADVANCE = Duration.ofMillis(40);
    static final Duration GRACE = Duration.ofMillis(30);
    static final Duration GAP = Duration.ofMillis(50);

    interface Build {
        void build(StreamsBuilder builder, Output output);
    }

    /** Takes what a stream or a table emits: into a list, or to a topic. */
    static class Output {
        final ArrayNode records = NODES.arrayNode();
        final String topic;

        Output(String topic) {
            this.topic = topic;
        }

        void add(KTable<?, ?> table) {
            add(table.toStream());
        }

        /** The bytes of a key as the windowed serdes write it. */
        static byte[] bytes(Object key) {
            if (!(key instanceof Windowed<?> windowed)) {
                return key == null ? null : ((String) key).getBytes(StandardCharsets.UTF_8);
            }
            byte[] own = bytes(windowed.key());
            boolean isSession = windowed.window() instanceof SessionWindow;
            ByteBuffer buffer = ByteBuffer.allocate(own.length + (isSession ? 16 : 8)).put(own);
            if (isSession) {
                buffer.putLong(windowed.window().end());
            }
            return buffer.putLong(windowed.window().start()).array();
        }

        <K, V> void add(KStream<K, V> stream) {
            if (topic != null) {
                stream.map((key, value) -> new KeyValue<>(bytes(key),
                        value == null ? null : value.toString().getBytes(StandardCharsets.UTF_8)))
                    .to(topic, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
                return;
            }
            stream.process(() -> new Processor<K, V, Void, Void>() {
                @Override
                public void process(Record<K, V> record) {
                    ArrayNode node = records.addArray();
                    Object key = record.key();
                    if (key instanceof Windowed<?> windowed) {
                        node.add((String) windowed.key());
                        node.addArray().add(windowed.window().start()).add(windowed.window().end());
                    } else {
                        node.add((String) key).addNull();
                    }
                    node.add(record.value() == null ? null : record.value().toString());
                    node.add(record.timestamp());
                }
            });
        }
    }

    static final Map<String, Build> TOPOLOGIES = new LinkedHashMap<>();

    static KStream<String, String> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(TEXT, TEXT));
    }

    static KTable<String, String> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(TEXT, TEXT), Materialized.as(Stores.inMemoryKeyValueStore(topic)));
    }

    static KGroupedStream<String, String> grouped(StreamsBuilder builder, String topic) {
        return stream(builder, topic).groupByKey(Grouped.with(TEXT, TEXT));
    }

    static Materialized<String, Long, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>> longs() {
        return Materialized.with(TEXT, LONG);
    }

    /** The text before ":" names a group or a foreign key; without ":" it is the whole text. */
    static String head(String value) {
        int at = value.indexOf(':');
        return at < 0 ? value : value.substring(0, at);
    }

    /** A foreign key; an empty one is null. */
    static String reference(String value) {
        return head(value).isEmpty() ? null : head(value);
    }

    static String pair(String left, String right) {
        return left + "/" + right;
    }

    static String appended(String before, String value) {
        String joined = before + "+" + value;
        return joined.length() <= 40 ? joined : joined.substring(joined.length() - 40);
    }

    static {
        stateless();
        joins();
        aggregates();
        tableAggregates();
        windows();
        streamJoins();
        processors();
        chains();
        chainsOfStreams();
        chainsOfTables();
    }

    static void stateless() {
        TOPOLOGIES.put("stream-filter", (b, out) ->
            out.add(stream(b, "left").filter((k, v) -> v != null && !v.startsWith("a"))));
        TOPOLOGIES.put("stream-map-values", (b, out) ->
            out.add(stream(b, "left").mapValues(v -> v == null ? null : v.toUpperCase())));
        TOPOLOGIES.put("stream-flat-map", (b, out) ->
            out.add(stream(b, "left").flatMap((k, v) -> v == null ? List.<KeyValue<String, String>>of()
                : List.of(new KeyValue<>(head(v), k), new KeyValue<>(k, v)))));
        TOPOLOGIES.put("branch", (b, out) -> {
            var branches = stream(b, "left").split(org.apache.kafka.streams.kstream.Named.as("branch-"))
                .branch((k, v) -> v == null, org.apache.kafka.streams.kstream.Branched.as("null"))
                .branch((k, v) -> v.startsWith("a"), org.apache.kafka.streams.kstream.Branched.as("a"))
                .defaultBranch(org.apache.kafka.streams.kstream.Branched.as("rest"));
            out.add(branches.get("branch-null").mapValues(v -> "null"));
            out.add(branches.get("branch-a").mapValues(v -> "a " + v));
            out.add(branches.get("branch-rest").mapValues(v -> "rest " + v));
        });
        TOPOLOGIES.put("merge", (b, out) -> out.add(stream(b, "left").merge(stream(b, "right"))));
        TOPOLOGIES.put("table-filter", (b, out) ->
            out.add(table(b, "left").filter((k, v) -> !v.startsWith("a"))));
        TOPOLOGIES.put("table-map-values", (b, out) ->
            out.add(table(b, "left").mapValues(v -> v == null ? null : v.toUpperCase())));
        TOPOLOGIES.put("to-table", (b, out) ->
            out.add(stream(b, "left").toTable(Materialized.with(TEXT, TEXT))));
    }

    static void joins() {
        TOPOLOGIES.put("stream-table-inner", (b, out) ->
            out.add(stream(b, "left").join(table(b, "right"), StreamsPeer::pair)));
        TOPOLOGIES.put("stream-table-left", (b, out) ->
            out.add(stream(b, "left").leftJoin(table(b, "right"), StreamsPeer::pair)));
        TOPOLOGIES.put("table-table-inner", (b, out) ->
            out.add(table(b, "left").join(table(b, "right"), StreamsPeer::pair)));
        TOPOLOGIES.put("table-table-left", (b, out) ->
            out.add(table(b, "left").leftJoin(table(b, "right"), StreamsPeer::pair)));
        TOPOLOGIES.put("table-table-outer", (b, out) ->
            out.add(table(b, "left").outerJoin(table(b, "right"), StreamsPeer::pair)));
        TOPOLOGIES.put("foreign-key-inner", (b, out) ->
            out.add(table(b, "left").join(table(b, "right"), StreamsPeer::reference, StreamsPeer::pair,
                Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("foreign-key-left", (b, out) ->
            out.add(table(b, "left").leftJoin(table(b, "right"), StreamsPeer::reference, StreamsPeer::pair,
                Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("global-table-inner", (b, out) -> {
            GlobalKTable<String, String> global = b.globalTable("right", Consumed.with(TEXT, TEXT));
            out.add(stream(b, "left").join(global, (k, v) -> v == null ? null : reference(v), StreamsPeer::pair));
        });
        TOPOLOGIES.put("global-table-left", (b, out) -> {
            GlobalKTable<String, String> global = b.globalTable("right", Consumed.with(TEXT, TEXT));
            out.add(stream(b, "left").leftJoin(global, (k, v) -> v == null ? null : reference(v), StreamsPeer::pair));
        });
    }

    static void aggregates() {
        TOPOLOGIES.put("count", (b, out) -> out.add(grouped(b, "left").count(longs())));
        TOPOLOGIES.put("reduce", (b, out) ->
            out.add(grouped(b, "left").reduce(StreamsPeer::appended, Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("aggregate", (b, out) -> out.add(grouped(b, "left").aggregate(
            () -> "", (k, v, total) -> appended(total, v), Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("aggregate-to-null", (b, out) -> out.add(grouped(b, "left").aggregate(
            () -> "", (k, v, total) -> v.startsWith("a") ? null : appended(String.valueOf(total), v),
            Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("rekey-count", (b, out) -> out.add(stream(b, "left")
            .groupBy((k, v) -> v == null ? null : head(v), Grouped.with(TEXT, TEXT)).count(longs())));
        TOPOLOGIES.put("cogroup", (b, out) -> {
            KGroupedStream<String, String> right = grouped(b, "right");
            out.add(grouped(b, "left").<String>cogroup((k, v, total) -> appended(total, "l" + v))
                .cogroup(right, (k, v, total) -> appended(total, "r" + v))
                .aggregate(() -> "", Materialized.with(TEXT, TEXT)));
        });
    }

    static KGroupedTable<String, String> regrouped(StreamsBuilder builder) {
        return table(builder, "left").groupBy((k, v) -> new KeyValue<>(reference(v), v), Grouped.with(TEXT, TEXT));
    }

    static void tableAggregates() {
        TOPOLOGIES.put("table-count", (b, out) -> out.add(regrouped(b).count(longs())));
        TOPOLOGIES.put("table-aggregate", (b, out) -> out.add(regrouped(b).aggregate(
            () -> 0L, (k, v, total) -> total + v.length(), (k, v, total) -> total - v.length(), longs())));
        TOPOLOGIES.put("table-reduce", (b, out) -> out.add(table(b, "left")
            .groupBy((k, v) -> new KeyValue<>(reference(v), (long) v.length()), Grouped.with(TEXT, LONG))
            .reduce(Long::sum, (total, old) -> total - old, longs())));
    }

    static void windows() {
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(SIZE, GRACE);
        TimeWindows hopping = TimeWindows.ofSizeAndGrace(SIZE, GRACE).advanceBy(ADVANCE);
        SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE);
        SessionWindows sessions = SessionWindows.ofInactivityGapAndGrace(GAP, GRACE);
        TOPOLOGIES.put("tumbling-count", (b, out) ->
            out.add(grouped(b, "left").windowedBy(tumbling).count(Materialized.with(TEXT, LONG))));
        TOPOLOGIES.put("tumbling-reduce", (b, out) -> out.add(grouped(b, "left").windowedBy(tumbling)
            .reduce(StreamsPeer::appended, Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("hopping-count", (b, out) ->
            out.add(grouped(b, "left").windowedBy(hopping).count(Materialized.with(TEXT, LONG))));
        TOPOLOGIES.put("hopping-aggregate", (b, out) -> out.add(grouped(b, "left").windowedBy(hopping).aggregate(
            () -> "", (k, v, total) -> appended(total, v), Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("sliding-count", (b, out) ->
            out.add(grouped(b, "left").windowedBy(sliding).count(Materialized.with(TEXT, LONG))));
        TOPOLOGIES.put("sliding-aggregate", (b, out) -> out.add(grouped(b, "left").windowedBy(sliding).aggregate(
            () -> "", (k, v, total) -> appended(total, v), Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("session-count", (b, out) ->
            out.add(grouped(b, "left").windowedBy(sessions).count(Materialized.with(TEXT, LONG))));
        TOPOLOGIES.put("session-aggregate", (b, out) -> out.add(grouped(b, "left").windowedBy(sessions).aggregate(
            () -> "", (k, v, total) -> appended(total, v), (k, one, two) -> one + "&" + two,
            Materialized.with(TEXT, TEXT))));
        var closed = Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded());
        TOPOLOGIES.put("tumbling-final", (b, out) -> out.add(grouped(b, "left").windowedBy(tumbling)
            .count(Materialized.with(TEXT, LONG)).suppress(closed)));
        TOPOLOGIES.put("hopping-final", (b, out) -> out.add(grouped(b, "left").windowedBy(hopping)
            .count(Materialized.with(TEXT, LONG)).suppress(closed)));
        TOPOLOGIES.put("session-final", (b, out) -> out.add(grouped(b, "left").windowedBy(sessions)
            .count(Materialized.with(TEXT, LONG)).suppress(closed)));
        TOPOLOGIES.put("time-limit", (b, out) -> out.add(grouped(b, "left").count(longs())
            .suppress(Suppressed.untilTimeLimit(GAP, Suppressed.BufferConfig.unbounded()))));
        TOPOLOGIES.put("table-time-limit", (b, out) -> out.add(table(b, "left")
            .suppress(Suppressed.untilTimeLimit(GAP, Suppressed.BufferConfig.unbounded()))));
        TOPOLOGIES.put("table-most-records", (b, out) -> out.add(table(b, "left")
            .suppress(Suppressed.untilTimeLimit(GAP, Suppressed.BufferConfig.maxRecords(2).emitEarlyWhenFull()))));
        TOPOLOGIES.put("count-most-records", (b, out) -> out.add(grouped(b, "left").count(longs())
            .suppress(Suppressed.untilTimeLimit(GAP, Suppressed.BufferConfig.maxRecords(2)))));
        TOPOLOGIES.put("tumbling-most-records", (b, out) -> out.add(grouped(b, "left").windowedBy(tumbling)
            .count(Materialized.with(TEXT, LONG))
            .suppress(Suppressed.untilTimeLimit(GAP, Suppressed.BufferConfig.maxRecords(1)))));
        TOPOLOGIES.put("tumbling-emit-on-close", (b, out) -> out.add(grouped(b, "left").windowedBy(tumbling)
            .emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.with(TEXT, LONG))));
    }

    static void streamJoins() {
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(GAP, GRACE);
        JoinWindows oneSided = window.before(Duration.ZERO);
        StreamJoined<String, String, String> texts = StreamJoined.with(TEXT, TEXT, TEXT);
        TOPOLOGIES.put("stream-stream-inner", (b, out) ->
            out.add(stream(b, "left").join(stream(b, "right"), StreamsPeer::pair, window, texts)));
        TOPOLOGIES.put("stream-stream-left", (b, out) ->
            out.add(stream(b, "left").leftJoin(stream(b, "right"), StreamsPeer::pair, window, texts)));
        TOPOLOGIES.put("stream-stream-outer", (b, out) ->
            out.add(stream(b, "left").outerJoin(stream(b, "right"), StreamsPeer::pair, window, texts)));
        TOPOLOGIES.put("stream-stream-after", (b, out) ->
            out.add(stream(b, "left").join(stream(b, "right"), StreamsPeer::pair, oneSided, texts)));
    }

    /** Forwards a record unless one with its key came within the gap, by the time of records. */
    static class Dedupe implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, Long> seen;

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            seen = given.getStateStore("seen");
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            Long before = seen.get(record.key());
            if (before == null || Math.abs(record.timestamp() - before) > GAP.toMillis()) {
                seen.put(record.key(), record.timestamp());
                context.forward(record);
            }
        }
    }

    /** Forwards the number of values of a key up to now, and forgets the key at a null. */
    static class Running implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, Long> totals;

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            totals = given.getStateStore("totals");
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            if (record.value() == null) {
                totals.delete(record.key());
                context.forward(record);
                return;
            }
            Long before = totals.get(record.key());
            long total = (before == null ? 0 : before) + 1;
            totals.put(record.key(), total);
            context.forward(record.withValue(record.value() + "#" + total));
        }
    }

    /** Says how many records came between points of stream time. */
    static class Clock implements Processor<String, String, String, String> {
        private long count;

        @Override
        public void init(ProcessorContext<String, String> context) {
            context.schedule(SIZE, PunctuationType.STREAM_TIME,
                time -> context.forward(new Record<>("clock", String.valueOf(count), time)));
        }

        @Override
        public void process(Record<String, String> record) {
            count++;
        }
    }

    /** Forwards the number of records of each key since the last point of the wall clock. */
    static class Silence implements Processor<String, String, String, String> {
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            counts = context.getStateStore("counts");
            context.schedule(SIZE, PunctuationType.WALL_CLOCK_TIME, time -> {
                List<KeyValue<String, Long>> found = new ArrayList<>();
                try (var all = counts.all()) {
                    all.forEachRemaining(found::add);
                }
                for (var each : found) {
                    context.forward(new Record<>(each.key, String.valueOf(each.value), time));
                    counts.delete(each.key);
                }
            });
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.key() != null) {
                Long before = counts.get(record.key());
                counts.put(record.key(), (before == null ? 0 : before) + 1);
            }
        }
    }

    static void processors() {
        TOPOLOGIES.put("wall-clock", (b, out) -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("counts"), TEXT, LONG));
            out.add(stream(b, "left").process(Silence::new, "counts"));
        });
        TOPOLOGIES.put("punctuation", (b, out) -> out.add(stream(b, "left").process(Clock::new)));
        TOPOLOGIES.put("dedupe", (b, out) -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("seen"), TEXT, LONG));
            out.add(stream(b, "left").process(Dedupe::new, "seen"));
        });
        TOPOLOGIES.put("running-total", (b, out) -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("totals"), TEXT, LONG));
            out.add(stream(b, "left").process(Running::new, "totals"));
        });
    }

    static void chains() {
        TOPOLOGIES.put("join-then-count", (b, out) -> out.add(stream(b, "left")
            .join(table(b, "right"), (v, t) -> head(t)).groupBy((k, v) -> v, Grouped.with(TEXT, TEXT)).count(longs())));
        TOPOLOGIES.put("tables-then-count", (b, out) -> out.add(table(b, "left").join(table(b, "right"), StreamsPeer::pair)
            .groupBy((k, v) -> new KeyValue<>(reference(v), v), Grouped.with(TEXT, TEXT)).count(longs())));
    }

    static KStream<String, String> changes(StreamsBuilder builder) {
        return grouped(builder, "left").reduce(StreamsPeer::appended, Materialized.with(TEXT, TEXT)).toStream();
    }

    static KGroupedStream<String, String> valued(StreamsBuilder builder) {
        return stream(builder, "left").filter((k, v) -> v != null).groupByKey(Grouped.with(TEXT, TEXT));
    }

    static KTable<String, Long> counted(KStream<String, String> records, KeyValueMapper<String, String, String> key) {
        return records.groupBy(key, Grouped.with(TEXT, TEXT)).count(longs());
    }

    static KTable<String, String> numbers(StreamsBuilder builder, String topic) {
        return grouped(builder, topic).count(longs()).mapValues(String::valueOf, Materialized.with(TEXT, TEXT));
    }

    static void chainsOfStreams() {
        TOPOLOGIES.put("reduce-then-count", (b, out) -> out.add(counted(changes(b), (k, v) -> head(v))));
        TOPOLOGIES.put("reduce-then-count-by-key", (b, out) ->
            out.add(changes(b).groupByKey(Grouped.with(TEXT, TEXT)).count(longs())));
        TOPOLOGIES.put("final-then-count", (b, out) -> out.add(valued(b)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count(Materialized.with(TEXT, LONG))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()
            .groupBy((k, v) -> k.key(), Grouped.with(TEXT, LONG)).count(longs())));
        TOPOLOGIES.put("total-then-count", (b, out) -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("totals"), TEXT, LONG));
            out.add(counted(stream(b, "left").process(Running::new, "totals"), (k, v) -> v == null ? null : head(v)));
        });
        TOPOLOGIES.put("three-counts", (b, out) -> out.add(counted(changes(b)
            .groupBy((k, v) -> head(v), Grouped.with(TEXT, TEXT))
            .reduce(StreamsPeer::appended, Materialized.with(TEXT, TEXT)).toStream(),
            (k, v) -> k.substring(0, Math.min(1, k.length())))));
        TOPOLOGIES.put("join-behind-count", (b, out) ->
            out.add(stream(b, "right").join(numbers(b, "left"), StreamsPeer::pair)));
        TOPOLOGIES.put("join-behind-join", (b, out) -> {
            KTable<String, String> left = table(b, "left");
            out.add(stream(b, "right").leftJoin(left, StreamsPeer::pair)
                .join(left.toStream().groupByKey(Grouped.with(TEXT, TEXT)).count(longs())
                    .mapValues(String::valueOf, Materialized.with(TEXT, TEXT)), StreamsPeer::pair));
        });
        TOPOLOGIES.put("merge-of-counts", (b, out) -> out.add(changes(b).merge(stream(b, "right"))));
    }

    static void chainsOfTables() {
        TOPOLOGIES.put("count-then-table-count", (b, out) -> out.add(numbers(b, "left")
            .groupBy((k, v) -> new KeyValue<>(v, v), Grouped.with(TEXT, TEXT)).count(longs())));
        TOPOLOGIES.put("windows-then-table-count", (b, out) -> out.add(valued(b)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count(Materialized.with(TEXT, LONG))
            .groupBy((k, v) -> new KeyValue<>(String.valueOf(v), v), Grouped.with(TEXT, LONG)).count(longs())));
        TOPOLOGIES.put("join-of-counts", (b, out) ->
            out.add(numbers(b, "left").join(numbers(b, "right"), StreamsPeer::pair)));
    }

    static ArrayNode run(Build build, JsonNode records) {
        StreamsBuilder builder = new StreamsBuilder();
        Output output = new Output(null);
        build.build(builder, output);
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "parity");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:1");
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
            org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        // Results that a closed window makes final are emitted at once, not once a second.
        properties.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        properties.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        ArrayNode outputs = NODES.arrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(properties), properties, Instant.EPOCH)) {
            Map<String, TestInputTopic<String, String>> topics = new LinkedHashMap<>();
            long clock = 0;
            for (JsonNode record : records) {
                String topic = record.get(0).textValue();
                long time = record.get(3).longValue();
                if (topic.equals("clock")) {
                    driver.advanceWallClockTime(Duration.ofMillis(time - clock));
                    clock = time;
                } else {
                    topics.computeIfAbsent(topic,
                        name -> driver.createInputTopic(name, new StringSerializer(), new StringSerializer()))
                        .pipeInput(new TestRecord<>(record.get(1).textValue(), record.get(2).textValue(),
                            Instant.ofEpochMilli(time)));
                }
                outputs.add(output.records.deepCopy());
                output.records.removeAll();
            }
        }
        return outputs;
    }

    static ObjectNode failure(Throwable thrown) {
        ObjectNode node = NODES.objectNode();
        node.put("error", thrown.getClass().getName());
        List<String> messages = new ArrayList<>();
        for (Throwable each = thrown; each != null; each = each.getCause()) {
            messages.add(String.valueOf(each.getMessage()));
        }
        node.put("message", String.join("; ", messages));
        return node;
    }

    /** Returns a topology as an application of a cluster, with exactly-once delivery. */
    static KafkaStreams application(String bootstrap, String topology, String output, String state) {
        StreamsBuilder builder = new StreamsBuilder();
        TOPOLOGIES.get(topology).build(builder, new Output(output));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, output);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put("auto.offset.reset", "earliest");
        return new KafkaStreams(builder.build(properties), properties);
    }

    /** Runs topologies on a cluster until the input ends; the arguments are pairs of topology and topic. */
    static void serve(String[] arguments) throws Exception {
        List<KafkaStreams> running = new ArrayList<>();
        for (int place = 2; place < arguments.length; place += 2) {
            running.add(application(arguments[0], arguments[place], arguments[place + 1], arguments[1]));
        }
        running.forEach(KafkaStreams::start);
        while (System.in.read() >= 0) {
        }
        running.forEach(KafkaStreams::close);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            serve(arguments);
            return;
        }
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode call = MAPPER.readTree(line);
            ArrayNode answers = NODES.arrayNode();
            Build build = TOPOLOGIES.get(call.get("topology").textValue());
            for (JsonNode records : call.get("cases")) {
                try {
                    answers.add(run(build, records));
                } catch (Throwable thrown) {
                    answers.add(failure(thrown));
                }
            }
            output.println(MAPPER.writeValueAsString(answers));
            output.flush();
        }
    }
}
