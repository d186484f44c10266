// Gives a broker the same records on each run, and prints what it still has of them. Started from source.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Survivors {
    private static final long DAY_MS = 86_400_000L;
    private static final int BATCHES = 300;
    private static final int BATCH_RECORDS = 5;
    private static final int KEYS = 40;
    /** Nothing goes while records arrive: what goes then depends on how far the log was at that moment. */
    private static final Map<String, String> FEEDING = Map.of("cleanup.policy", "delete", "retention.ms", "-1",
            "segment.bytes", "1048576", "file.delete.delay.ms", "1000");
    private static final Map<String, String> COMPACT = Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.0");
    /** What compact-delete gets once it is compacted: retention before or after compaction leaves other records. */
    private static final Map<String, String> THEN_DELETE = Map.of("cleanup.policy", "compact,delete", "retention.bytes", "1");

    private static final String MOST_OF_IT = "2000000";
    private static final String ACTIVE_ONLY = "800000";

    /** Whose time a record has: its producer's, none, or the broker's while the producer's is another. */
    private enum Times { CREATED, MISSING, APPENDED }

    /** One topic: the rules that hold once it is fed, the codec of its records and how old they are, first and last. */
    private record Case(String topic, Map<String, String> rules, String codec, Times times, long oldestMs, long newestMs) {
        Case(String topic, Map<String, String> rules, String codec, long oldestMs, long newestMs) {
            this(topic, rules, codec, Times.CREATED, oldestMs, newestMs);
        }

        Case(String topic, Map<String, String> rules, Times times) {
            // Old by what their producer says, if it says anything.
            this(topic, rules, "none", times, 9 * DAY_MS, 3 * DAY_MS);
        }

        Map<String, String> created() {
            return times == Times.APPENDED ? with(FEEDING, "message.timestamp.type", "LogAppendTime") : FEEDING;
        }
    }

    /** What the public constructors refuse. */
    private static final class Untimed extends ProducerRecord<byte[], byte[]> {
        Untimed(String topic, byte[] key, byte[] value) {
            super(topic, 0, key, value);
        }

        @Override
        public Long timestamp() {
            return RecordBatch.NO_TIMESTAMP;
        }
    }

    private static List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.add(new Case("compact-" + codec, COMPACT, codec, 60_000, 0));
        }
        all.add(new Case("compact-delete", COMPACT, "none", 60_000, 0));
        all.add(new Case("compact-lag", with(COMPACT, "min.compaction.lag.ms", "" + DAY_MS), "none", 3 * DAY_MS, 0));
        all.add(new Case("compact-append", COMPACT, Times.APPENDED));
        all.add(new Case("compact-untimed", COMPACT, Times.MISSING));
        all.add(new Case("lag-append", with(COMPACT, "min.compaction.lag.ms", "" + DAY_MS), Times.APPENDED));
        all.add(new Case("lag-untimed", with(COMPACT, "min.compaction.lag.ms", "" + DAY_MS), Times.MISSING));
        all.add(new Case("size", Map.of("retention.bytes", MOST_OF_IT), "none", 60_000, 0));
        all.add(new Case("size-zero", Map.of("retention.bytes", "0"), "none", 60_000, 0));
        all.add(new Case("time", Map.of("retention.ms", "" + DAY_MS), "none", 3 * DAY_MS, 0));
        all.add(new Case("time-all", Map.of("retention.ms", "" + DAY_MS), "none", 9 * DAY_MS, 3 * DAY_MS));
        all.add(new Case("time-future", Map.of("retention.ms", "1000"), "none", -3_000_000, -3_000_000));
        all.add(new Case("for-ever", Map.of("retention.ms", "-1"), "none", 9 * DAY_MS, 3 * DAY_MS));
        for (Times times : List.of(Times.APPENDED, Times.MISSING)) {
            String name = times == Times.APPENDED ? "append" : "untimed";
            all.add(new Case(name, Map.of("retention.ms", "" + DAY_MS), times));
            all.add(new Case(name + "-all", Map.of("retention.ms", "1000"), "none", times, -3_000_000, -3_000_000));
            all.add(new Case("both-" + name, Map.of("retention.ms", "" + DAY_MS, "retention.bytes", ACTIVE_ONLY), times));
        }
        // One takes the oldest segment, the other both that are sealed.
        Map<String, String> more = Map.of("retention.ms", "" + 3 * DAY_MS / 2, "retention.bytes", ACTIVE_ONLY);
        all.add(new Case("both-by-size", more, "none", 3 * DAY_MS, 0));
        Map<String, String> older = Map.of("retention.ms", "" + DAY_MS / 2, "retention.bytes", MOST_OF_IT);
        all.add(new Case("both-by-time", older, "none", 3 * DAY_MS, 0));
        return all;
    }

    private static Map<String, String> with(Map<String, String> configs, String name, String value) {
        Map<String, String> more = new HashMap<>(configs);
        more.put(name, value);
        return more;
    }

    /** Arguments: feed, delete or read, the address; for feed, what now is in ms since 1970. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[1]));
        switch (arguments[0]) {
            case "feed" -> {
                for (Case one : cases()) {
                    feed(settings, one, Long.parseLong(arguments[2]));
                    rule(settings, one.topic, one.rules);
                }
            }
            case "delete" -> rule(settings, "compact-delete", THEN_DELETE);
            case "read" -> read(settings);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void rule(Map<String, Object> settings, String topic, Map<String, String> rules) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        rules.forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        try (Admin admin = Admin.create(settings)) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), changes)).all().get();
        }
    }

    private static void feed(Map<String, Object> settings, Case one, long nowMs) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            NewTopic topic = new NewTopic(one.topic, 1, (short) 1).configs(one.created());
            admin.createTopics(List.of(topic)).all().get();
        }
        Map<String, Object> producing = new HashMap<>(settings);
        // A batch is what is between two flushes, on every broker.
        producing.putAll(Map.of("linger.ms", 60_000, "batch.size", 900_000, "compression.type", one.codec));
        Random random = new Random(one.topic.hashCode());
        try (var producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int batch = 0; batch < BATCHES; batch++) {
                long ageMs = one.oldestMs - (one.oldestMs - one.newestMs) * batch / (BATCHES - 1);
                for (int record = 0; record < BATCH_RECORDS; record++) {
                    byte[] key = ("key-" + random.nextInt(KEYS)).getBytes(StandardCharsets.UTF_8);
                    byte[] value = new byte[1_500 + random.nextInt(1_000)];
                    random.nextBytes(value);
                    boolean deletes = one.topic.startsWith("compact") && random.nextInt(10) == 0;
                    value = deletes ? null : value;
                    producer.send(one.times == Times.MISSING ? new Untimed(one.topic, key, value)
                            : new ProducerRecord<>(one.topic, 0, nowMs - ageMs, key, value));
                }
                producer.flush();
            }
        }
    }

    /** The broker's own time is its own: another broker's is another. */
    private static String time(ConsumerRecord<byte[], byte[]> record) {
        boolean now = Math.abs(System.currentTimeMillis() - record.timestamp()) < DAY_MS;
        return record.timestampType() == TimestampType.LOG_APPEND_TIME && now ? "appended" : "" + record.timestamp();
    }

    private static void read(Map<String, Object> settings) {
        Map<String, Object> consuming = new HashMap<>(settings);
        consuming.putAll(Map.of("enable.auto.commit", "false", "auto.offset.reset", "none"));
        try (var consumer = new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (Case one : cases()) {
                TopicPartition partition = new TopicPartition(one.topic, 0);
                List<TopicPartition> only = List.of(partition);
                long start = consumer.beginningOffsets(only).get(partition);
                long end = consumer.endOffsets(only).get(partition);
                System.out.println(one.topic + " starts at " + start + " and ends at " + end);
                consumer.assign(only);
                consumer.seek(partition, start);
                while (consumer.position(partition) < end) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10))) {
                        System.out.println(one.topic + " " + record.offset() + " " + new String(record.key())
                                + " " + time(record) + " " + Arrays.hashCode(record.value()));
                    }
                }
            }
        }
    }
}
