import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.TopologyException;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/** Prints named topologies of Kafka Streams as one line of JSON: their names and their descriptions. */
public class TopologyPeer {
    static final Serde<String> TEXT = Serdes.String();
    static final Duration SIZE = Duration.ofMinutes(1);
    static final Duration GRACE = Duration.ofSeconds(5);
    static final Map<String, Consumer<StreamsBuilder>> TOPOLOGIES = new LinkedHashMap<>();

    static KStream<String, String> left(StreamsBuilder builder) {
        return builder.stream("left");
    }

    static KStream<String, String> right(StreamsBuilder builder) {
        return builder.stream("right");
    }

    static KTable<String, String> leftTable(StreamsBuilder builder) {
        return builder.table("left");
    }

    static KTable<String, String> rightTable(StreamsBuilder builder) {
        return builder.table("right");
    }

    static String pair(String left, String right) {
        return left + "/" + right;
    }

    static String merged(String key, String left, String right) {
        return left + right;
    }

    static void stateless() {
        TOPOLOGIES.put("copy", b -> left(b).to("out"));
        TOPOLOGIES.put("source-without-sink", b -> left(b));
        TOPOLOGIES.put("filter", b -> left(b).filter((k, v) -> true).filterNot((k, v) -> true).to("out"));
        TOPOLOGIES.put("map", b -> left(b).mapValues(v -> v).map(KeyValue::new).selectKey((k, v) -> v).to("out"));
        TOPOLOGIES.put("flat-map", b -> left(b).flatMapValues(v -> List.of(v))
            .flatMap((k, v) -> List.of(new KeyValue<>(k, v))).peek((k, v) -> { }).to("out"));
        TOPOLOGIES.put("branch", b -> {
            var branches = left(b).split().branch((k, v) -> true).branch((k, v) -> true).noDefaultBranch();
            int number = 0;
            for (String name : branches.keySet().stream().sorted().toList()) {
                branches.get(name).to("out-" + number++);
            }
        });
        TOPOLOGIES.put("merge", b -> left(b).merge(right(b)).to("out"));
        TOPOLOGIES.put("two-outputs", b -> {
            KStream<String, String> left = left(b);
            left.to("out");
            left.mapValues(v -> v).filter((k, v) -> true).to("out-1");
            left.filter((k, v) -> true).to("out-2");
        });
        TOPOLOGIES.put("two-parts", b -> {
            left(b).filter((k, v) -> true).to("out");
            right(b).mapValues(v -> v).to("out-1");
        });
        TOPOLOGIES.put("many-outputs", b -> {
            KStream<String, String> left = left(b).mapValues(v -> v);
            for (int number = 0; number < 12; number++) {
                left.filter((k, v) -> true).mapValues(v -> v).to("out-" + number);
            }
        });
    }

    static void aggregates() {
        TOPOLOGIES.put("count", b -> left(b).groupByKey().count().toStream().to("out"));
        TOPOLOGIES.put("count-by-value", b -> left(b).groupBy((k, v) -> v).count().toStream().to("out"));
        TOPOLOGIES.put("count-by-name", b -> left(b).groupBy((k, v) -> v, Grouped.as("by-value")).count()
            .toStream().to("out"));
        TOPOLOGIES.put("count-of-new-keys", b -> left(b).selectKey((k, v) -> v).filter((k, v) -> true).groupByKey()
            .count().toStream().to("out"));
        TOPOLOGIES.put("count-by-key-and-name", b -> left(b).selectKey((k, v) -> v)
            .groupByKey(Grouped.as("by-value")).count().toStream().to("out"));
        TOPOLOGIES.put("reduce", b -> left(b).groupBy((k, v) -> v).reduce(TopologyPeer::pair).toStream().to("out"));
        TOPOLOGIES.put("fold", b -> left(b).groupByKey().aggregate(() -> "", TopologyPeer::merged)
            .toStream().to("out"));
        TOPOLOGIES.put("two-aggregates", b -> {
            var grouped = left(b).groupBy((k, v) -> v);
            grouped.count().toStream().to("out");
            grouped.reduce(TopologyPeer::pair).toStream().to("out-1");
        });
        TOPOLOGIES.put("two-aggregates-by-name", b -> {
            var grouped = left(b).groupBy((k, v) -> v, Grouped.as("by-value"));
            grouped.count().toStream().to("out");
            grouped.reduce(TopologyPeer::pair).toStream().to("out-1");
        });
        TOPOLOGIES.put("aggregate-then-map", b -> left(b).groupByKey().count().filter((k, v) -> true)
            .mapValues(v -> v).toStream().map(KeyValue::new).to("out"));
        TOPOLOGIES.put("tumbling", b -> left(b).groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
            .count().toStream().to("out"));
        TOPOLOGIES.put("tumbling-reduce", b -> left(b).groupBy((k, v) -> v)
            .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).reduce(TopologyPeer::pair).toStream().to("out"));
        TOPOLOGIES.put("final", b -> left(b).groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream().to("out"));
        TOPOLOGIES.put("session", b -> left(b).groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE))
            .count().toStream().to("out"));
        TOPOLOGIES.put("session-reduce", b -> left(b).groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE)).reduce(TopologyPeer::pair)
            .toStream().to("out"));
        TOPOLOGIES.put("sliding", b -> left(b).groupBy((k, v) -> v)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE)).count().toStream().to("out"));
        TOPOLOGIES.put("process", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("totals"), TEXT, TEXT));
            left(b).process(() -> new Processor<String, String, String, String>() {
                @Override
                public void process(Record<String, String> record) {
                }
            }, "totals").to("out");
        });
    }

    static void tables() {
        TOPOLOGIES.put("table", b -> leftTable(b).toStream().to("out"));
        TOPOLOGIES.put("table-filter", b -> leftTable(b).filter((k, v) -> true).mapValues(v -> v).toStream().to("out"));
        TOPOLOGIES.put("table-suppress", b -> leftTable(b)
            .suppress(Suppressed.untilTimeLimit(SIZE, Suppressed.BufferConfig.unbounded())).toStream().to("out"));
        TOPOLOGIES.put("suppress", b -> left(b).groupByKey().count()
            .suppress(Suppressed.untilTimeLimit(SIZE, Suppressed.BufferConfig.unbounded())).toStream().to("out"));
        TOPOLOGIES.put("table-count", b -> leftTable(b).groupBy((k, v) -> KeyValue.pair(v, v)).count()
            .toStream().to("out"));
        TOPOLOGIES.put("table-count-by-name", b -> leftTable(b)
            .groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value")).count().toStream().to("out"));
        TOPOLOGIES.put("table-reduce", b -> leftTable(b).mapValues(v -> v).groupBy((k, v) -> KeyValue.pair(v, v))
            .reduce(TopologyPeer::pair, TopologyPeer::pair).toStream().to("out"));
        TOPOLOGIES.put("table-fold", b -> leftTable(b).groupBy((k, v) -> KeyValue.pair(v, v))
            .aggregate(() -> "", TopologyPeer::merged, TopologyPeer::merged).toStream().to("out"));
    }

    static void suppressedTables() {
        Suppressed<Object> held = Suppressed.untilTimeLimit(SIZE, Suppressed.BufferConfig.unbounded());
        TOPOLOGIES.put("table-filter-suppress", b -> leftTable(b).filter((k, v) -> true)
            .suppress(held).toStream().to("out"));
        TOPOLOGIES.put("tables-suppress", b -> leftTable(b).join(rightTable(b), TopologyPeer::pair)
            .suppress(held).toStream().to("out"));
        TOPOLOGIES.put("foreign-key-suppress", b -> leftTable(b).join(rightTable(b), (String v) -> v,
            TopologyPeer::pair).suppress(held).toStream().to("out"));
        TOPOLOGIES.put("count-filter-suppress", b -> left(b).groupByKey().count().filter((k, v) -> true)
            .suppress(held).toStream().to("out"));
    }

    static void sharedTopics() {
        TOPOLOGIES.put("topic-twice", b -> {
            left(b).to("out");
            left(b).filter((k, v) -> true).to("out-1");
        });
        TOPOLOGIES.put("table-in-two-joins", b -> {
            KTable<String, String> right = rightTable(b);
            b.<String, String>stream("other").join(right, TopologyPeer::pair).to("out");
            leftTable(b).filter((k, v) -> true).join(right.filter((k, v) -> true), TopologyPeer::pair)
                .toStream().to("out-1");
        });
    }

    static void joins() {
        TOPOLOGIES.put("stream-table", b -> left(b).join(rightTable(b), TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("stream-table-left", b -> left(b).leftJoin(rightTable(b).filter((k, v) -> true),
            TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("stream-table-new-keys", b -> left(b).selectKey((k, v) -> v).join(rightTable(b),
            TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("global-table", b -> left(b).join(b.<String, String>globalTable("right"), (k, v) -> v,
            TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("global-table-left", b -> left(b).leftJoin(b.<String, String>globalTable("right"),
            (k, v) -> v, TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("tables", b -> leftTable(b).join(rightTable(b), TopologyPeer::pair).toStream().to("out"));
        TOPOLOGIES.put("tables-left", b -> leftTable(b).mapValues(v -> v).leftJoin(rightTable(b), TopologyPeer::pair)
            .toStream().to("out"));
        TOPOLOGIES.put("tables-outer", b -> leftTable(b).outerJoin(rightTable(b), TopologyPeer::pair)
            .mapValues(v -> v).toStream().to("out"));
        TOPOLOGIES.put("foreign-key", b -> leftTable(b).join(rightTable(b), (String v) -> v, TopologyPeer::pair)
            .toStream().to("out"));
        TOPOLOGIES.put("foreign-key-left", b -> leftTable(b).leftJoin(rightTable(b), (String v) -> v,
            TopologyPeer::pair).toStream().to("out"));
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(SIZE, GRACE);
        TOPOLOGIES.put("streams", b -> left(b).join(right(b), TopologyPeer::pair, windows).to("out"));
        TOPOLOGIES.put("streams-left", b -> left(b).leftJoin(right(b), TopologyPeer::pair, windows).to("out"));
        TOPOLOGIES.put("streams-outer", b -> left(b).outerJoin(right(b), TopologyPeer::pair, windows).to("out"));
        TOPOLOGIES.put("streams-new-keys", b -> left(b).selectKey((k, v) -> v).join(right(b).map(KeyValue::new),
            TopologyPeer::pair, windows, StreamJoined.with(TEXT, TEXT, TEXT)).to("out"));
    }

    static KTable<String, Long> counts(KStream<String, String> records) {
        return records.groupByKey().count();
    }

    static KTable<Windowed<String>, Long> windows(StreamsBuilder builder) {
        return left(builder).groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)).count();
    }

    static void chains() {
        TOPOLOGIES.put("count-then-count", b -> left(b).groupBy((k, v) -> v).count().toStream()
            .groupBy((k, v) -> k).count().toStream().to("out"));
        TOPOLOGIES.put("count-then-count-by-key", b -> counts(left(b)).toStream().groupByKey().count()
            .toStream().to("out"));
        TOPOLOGIES.put("count-then-count-by-name", b -> counts(left(b)).toStream()
            .groupBy((k, v) -> k, Grouped.as("second")).count().toStream().to("out"));
        TOPOLOGIES.put("count-then-two-aggregates", b -> {
            var grouped = counts(left(b)).toStream().groupBy((k, v) -> k);
            grouped.count().toStream().to("out");
            grouped.reduce(Long::sum).toStream().to("out-1");
        });
        TOPOLOGIES.put("three-counts", b -> counts(left(b)).toStream().selectKey((k, v) -> k).groupByKey().count()
            .toStream().groupBy((k, v) -> k).count().toStream().to("out"));
        TOPOLOGIES.put("count-then-table-count", b -> counts(left(b)).groupBy(KeyValue::pair).count()
            .toStream().to("out"));
        TOPOLOGIES.put("filter-then-table-count", b -> counts(left(b)).filter((k, v) -> true)
            .groupBy(KeyValue::pair).count().toStream().to("out"));
        TOPOLOGIES.put("windows-then-count", b -> windows(b).toStream().groupBy((k, v) -> k.key()).count()
            .toStream().to("out"));
        TOPOLOGIES.put("windows-then-table-count", b -> windows(b).groupBy((k, v) -> KeyValue.pair(k.key(), v))
            .count().toStream().to("out"));
        TOPOLOGIES.put("final-then-reduce", b -> windows(b)
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()
            .selectKey((k, v) -> k.key()).groupByKey().reduce(Long::sum).toStream().to("out"));
    }

    static void chainsOfJoins() {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(SIZE, GRACE);
        TOPOLOGIES.put("join-then-count", b -> left(b).join(rightTable(b), TopologyPeer::pair)
            .groupBy((k, v) -> v).count().toStream().to("out"));
        TOPOLOGIES.put("streams-then-count", b -> left(b).join(right(b), TopologyPeer::pair, windows).groupByKey()
            .count().toStream().to("out"));
        TOPOLOGIES.put("tables-then-count", b -> leftTable(b).join(rightTable(b), TopologyPeer::pair)
            .groupBy((k, v) -> KeyValue.pair(v, v)).count().toStream().to("out"));
        TOPOLOGIES.put("join-behind-count", b -> left(b).join(counts(right(b)), (v, n) -> v).to("out"));
        TOPOLOGIES.put("join-behind-mapped-count", b -> left(b)
            .leftJoin(counts(right(b)).filter((k, v) -> true).mapValues(v -> v), (v, n) -> v).to("out"));
        TOPOLOGIES.put("join-behind-join", b -> left(b).join(rightTable(b), TopologyPeer::pair)
            .selectKey((k, v) -> v).join(b.<String, String>table("other"), TopologyPeer::pair).to("out"));
        TOPOLOGIES.put("streams-behind-count", b -> counts(left(b)).toStream()
            .join(counts(right(b)).toStream(), Long::sum, windows).to("out"));
        TOPOLOGIES.put("join-of-counts", b -> counts(left(b)).join(counts(right(b)), Long::sum)
            .toStream().to("out"));
        TOPOLOGIES.put("merge-of-counts", b -> counts(left(b)).toStream().merge(counts(right(b)).toStream())
            .to("out"));
    }

    static void named() {
        TOPOLOGIES.put("name-of-two-groups", b -> {
            var left = left(b);
            left.groupBy((k, v) -> v, Grouped.as("by-value")).count().toStream().to("out");
            left.groupBy((k, v) -> k, Grouped.as("by-value")).count().toStream().to("out-1");
        });
        TOPOLOGIES.put("name-of-two-groups-of-new-keys", b -> {
            var left = left(b).selectKey((k, v) -> v);
            left.groupByKey(Grouped.as("by-value")).count().toStream().to("out");
            left.groupByKey(Grouped.as("by-value")).count().toStream().to("out-1");
        });
        TOPOLOGIES.put("name-of-two-groups-of-old-keys", b -> {
            var left = left(b);
            left.groupByKey(Grouped.as("by-value")).count().toStream().to("out");
            left.groupByKey(Grouped.as("by-value")).count().toStream().to("out-1");
        });
        TOPOLOGIES.put("name-of-new-keys-and-a-group", b -> {
            var left = left(b);
            left.selectKey((k, v) -> v).groupByKey(Grouped.as("by-value")).count().toStream().to("out");
            left.groupBy((k, v) -> v, Grouped.as("by-value")).count().toStream().to("out-1");
        });
        TOPOLOGIES.put("name-of-two-groups-of-a-table", b -> {
            var left = leftTable(b);
            left.groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value")).count().toStream().to("out");
            left.groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value")).count().toStream().to("out-1");
        });
        TOPOLOGIES.put("two-aggregates-of-a-table-by-name", b -> {
            var grouped = leftTable(b).groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("by-value"));
            grouped.count().toStream().to("out");
            grouped.reduce(TopologyPeer::pair, TopologyPeer::pair).toStream().to("out-1");
        });
        for (String name : new String[] {"", ".", "a b", "x".repeat(250)}) {
            TOPOLOGIES.put("named-" + name, b -> left(b).groupBy((k, v) -> v, Grouped.as(name)).count()
                .toStream().to("out"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        stateless();
        aggregates();
        tables();
        suppressedTables();
        sharedTopics();
        joins();
        chains();
        chainsOfJoins();
        named();
        Map<String, String> found = new LinkedHashMap<>();
        TOPOLOGIES.forEach((name, describe) -> {
            StreamsBuilder builder = new StreamsBuilder();
            try {
                describe.accept(builder);
                found.put(name, builder.build().describe().toString());
            } catch (TopologyException refused) {
                found.put(name, "refused");
            }
        });
        out.println(new ObjectMapper().writeValueAsString(found));
    }
}
