import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.IntFunction;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** The topics of the table: each batch of each topic by the timestamps of its records. Times are after the table's base. */
final class Cases {
    /** No timestamp, as a client says it. */
    static final long NONE = Long.MIN_VALUE;
    /** The first millisecond of 1970, whatever the base. */
    static final long FIRST = Long.MIN_VALUE + 1;
    static final long MINUTE = 60_000;
    static final long DAY = 1_440 * MINUTE;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final Map<String, String> KEPT = Map.of("retention.ms", "-1", "message.timestamp.after.max.ms", "" + Long.MAX_VALUE);
    private static final int KEYS = 5;

    /** One batch: its codec, what is in each value beside its number, and the records' times. */
    record Batch(String codec, int valueBytes, long... times) {}

    /** One topic; `deleteBefore` is where DeleteRecords moves its start once it is fed, -1 for all of it, 0 for not at all. */
    record Topic(String name, Map<String, String> configs, long deleteBefore, Batch... batches) {
        boolean isCompacted() {
            return configs.getOrDefault("cleanup.policy", "delete").equals("compact");
        }

        boolean hasAppendTime() {
            return configs.containsKey("message.timestamp.type");
        }
    }

    /** What any topic gets later: one batch with each codec, long after all that it has. */
    static List<Batch> more() {
        return CODECS.stream().map(codec -> minutes(codec, 7_000, 6_999, 7_001)).toList();
    }

    private Cases() {}

    static List<Topic> all() {
        List<Topic> all = new ArrayList<>(small());
        all.addAll(large());
        all.addAll(compacted());
        all.addAll(started());
        return all;
    }

    /** Topics of one small segment each. */
    private static List<Topic> small() {
        List<Topic> all = new ArrayList<>();
        all.add(topic("empty"));
        all.add(topic("in-order", batch(10, 20, 30), batch(40, 50), batch(60)));
        all.add(topic("out-of-order", batch(50, 10, 30), batch(20, 70, 60), batch(40, 15), batch(70, 5)));
        all.add(topic("equal", batch(10, 10, 10), batch(10, 10), batch(20, 20), batch(20)));
        all.add(topic("missing", batch(NONE, NONE, NONE), batch(NONE)));
        all.add(topic("missing-some", batch(NONE, 10, NONE), batch(NONE), batch(30, NONE), batch(NONE, NONE), batch(20)));
        all.add(topic("future", batch(10), batch(20, 11 * DAY), batch(30), batch(3_650 * DAY), batch(40)));
        all.add(topic("since-1970", batch(10), batch(-500 * DAY, 0), batch(FIRST, FIRST), batch(5)));
        all.add(topic("append-time", Map.of("message.timestamp.type", "LogAppendTime"),
                batch(10, 20, 30), batch(5, NONE), new Batch("lz4", 0, 40, 1), batch(NONE)));
        all.add(topic("every-batch-indexed", Map.of("index.interval.bytes", "0"), spread("none", 0, 60, 3)));
        for (String codec : CODECS) {
            all.add(topic("codec-" + codec, new Batch(codec, 400, 50, 10, 30), new Batch(codec, 400, 20, 70, 60, NONE),
                    new Batch(codec, 400, 40, 15, 70, 5)));
            all.add(topic("recompressed-" + codec, Map.of("compression.type", codec.equals("none") ? "uncompressed" : codec),
                    new Batch("gzip", 400, 50, 10, 30), new Batch("none", 400, 20, 70, 60, NONE)));
        }
        return all;
    }

    /** Topics of several segments, full or too old. */
    private static List<Topic> large() {
        List<Topic> all = new ArrayList<>();
        Map<String, String> full = Map.of("segment.bytes", "1048576");
        all.add(topic("by-size", full, spread("none", 30_000, 40, 3)));
        all.add(topic("by-size-falling", full, reversed(spread("none", 30_000, 40, 3))));
        all.add(topic("by-size-zstd", full, spread("zstd", 30_000, 40, 3)));
        // Each turn of the times is in a segment of its own, more or less.
        Batch[] turns = spread("none", 30_000, 44, 3);
        for (int at = 0; at < turns.length; at++) {
            turns[at] = batch("none", 30_000, at % 11 * 100, at % 11 * 100 + 50, at % 7);
        }
        all.add(topic("by-size-turns", full, turns));
        // Of four segments the third has no timestamp at all.
        Batch[] gap = spread("none", 30_000, 44, 3);
        for (int at = 18; at < 36; at++) {
            gap[at] = batch("none", 30_000, NONE, NONE, NONE);
        }
        all.add(topic("by-size-gap", full, gap));
        all.add(topic("by-time", Map.of("segment.ms", "" + 60 * MINUTE), minutes("none", 0, 30), minutes("none", 54),
                minutes("none", 120, 90), minutes("none", 144), minutes("none", 600), minutes("none", 540, 6),
                minutes("none", 654), minutes("none", 666), minutes("none", 1_800)));
        return all;
    }

    private static List<Topic> compacted() {
        Map<String, String> compact = Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.0",
                "segment.ms", "" + 60 * MINUTE);
        List<Topic> all = new ArrayList<>();
        for (String codec : CODECS) {
            // Only the last batch is in the active segment, with a key of its own.
            all.add(topic("compact-" + codec, compact, minutes(codec, 0, 20, 5, 10), minutes(codec, 25, 22),
                    minutes(codec, 300, 350, 306), minutes(codec, 355, 345, 355, 355, 300, 6),
                    minutes(codec, 1_200, 1_201, 1_201), minutes(codec, 5_000)));
        }
        for (String codec : List.of("none", "zstd")) {
            // What is left fills more than one segment.
            Map<String, String> full = new TreeMap<>(compact);
            full.put("segment.bytes", "1048576");
            List<Batch> batches = new ArrayList<>(Arrays.asList(spread(codec, 30_000, 80, 3)));
            batches.add(minutes(codec, 5_000));
            all.add(topic("compact-large-" + codec, full, batches.toArray(new Batch[0])));
        }
        return all;
    }

    /** Topics whose log no longer begins where it did. */
    private static List<Topic> started() {
        Map<String, String> full = Map.of("segment.bytes", "1048576");
        List<Topic> all = new ArrayList<>();
        all.add(started("start-in-batch", Map.of(), 4, batch(50, 10, 30), batch(20, 70, 60), batch(40, 15), batch(70, 5)));
        all.add(started("start-past-newest", Map.of(), 2, batch(10, 90), batch(20, 30), batch(25)));
        all.add(started("start-in-segment", full, 50, spread("none", 30_000, 40, 3)));
        all.add(started("start-falling", full, 50, reversed(spread("none", 30_000, 40, 3))));
        all.add(started("all-deleted", Map.of(), -1, batch(10, 20), batch(30)));
        all.add(started("all-deleted-large", full, -1, spread("none", 30_000, 40, 3)));
        return all;
    }

    private static Topic topic(String name, Batch... batches) {
        return topic(name, Map.of(), batches);
    }

    private static Topic topic(String name, Map<String, String> configs, Batch... batches) {
        return started(name, configs, 0, batches);
    }

    private static Topic started(String name, Map<String, String> configs, long deleteBefore, Batch... batches) {
        Map<String, String> all = new TreeMap<>(KEPT);
        all.putAll(configs);
        return new Topic(name, all, deleteBefore, batches);
    }

    private static Batch batch(long... times) {
        return new Batch("none", 0, times);
    }

    private static Batch batch(String codec, int valueBytes, long... times) {
        return new Batch(codec, valueBytes, times);
    }

    /** Times in minutes, and some bytes in each value. */
    private static Batch minutes(String codec, long... times) {
        return new Batch(codec, 100, Arrays.stream(times).map(time -> time * MINUTE).toArray());
    }

    /** Batches in order of time, 10 ms between their records. */
    private static Batch[] spread(String codec, int valueBytes, int batches, int records) {
        Batch[] all = new Batch[batches];
        for (int at = 0; at < batches; at++) {
            long[] times = new long[records];
            for (int record = 0; record < records; record++) {
                times[record] = (at * (long) records + record) * 10;
            }
            all[at] = new Batch(codec, valueBytes, times);
        }
        return all;
    }

    private static Batch[] reversed(Batch... batches) {
        List<Batch> all = new ArrayList<>(Arrays.asList(batches));
        Collections.reverse(all);
        return all.toArray(new Batch[0]);
    }

    /** The batch's bytes, the same on every run: `first` is the number of its first record, which gives its key. */
    static MemoryRecords records(Topic topic, Batch batch, int first, long base, IntFunction<String> keys) {
        Random random = new Random(topic.name.hashCode() * 31L + first);
        SimpleRecord[] records = new SimpleRecord[batch.times.length];
        for (int at = 0; at < records.length; at++) {
            byte[] key = keys.apply(first + at).getBytes(StandardCharsets.UTF_8);
            byte[] value = new byte[8 + batch.valueBytes];
            random.nextBytes(value);
            Header[] headers = at % 2 == 0 ? new Header[0] : new Header[] {new RecordHeader("number", new byte[] {(byte) at})};
            records[at] = new SimpleRecord(time(base, batch.times[at]), key, value, headers);
        }
        return MemoryRecords.withRecords(Compression.of(CompressionType.forName(batch.codec)).build(), records);
    }

    /** The key of the record with this number: each third one's is its own. */
    static String key(int number) {
        return number % 3 == 0 ? "own-" + number : "key-" + number % KEYS;
    }

    static long time(long base, long after) {
        return after == NONE ? -1 : after == FIRST ? 0 : base + after;
    }
}
