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
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Survivors {
    private static final long DAY_MS = 86_400_000L;
    private static final int BATCHES = 300;
    private static final int BATCH_RECORDS = 5;
    private static final int KEYS = 40;

    /** One topic: its configs, the codec of its records and how old they are, first and last. */
    private record Case(String topic, Map<String, String> configs, String codec, long oldestMs, long newestMs) {}

    private static List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.add(new Case("compact-" + codec, compact("compact"), codec, 60_000, 0));
        }
        all.add(new Case("compact-delete", with(compact("compact,delete"), "retention.bytes", "1500000"), "none", 60_000, 0));
        all.add(new Case("compact-lag", with(compact("compact"), "min.compaction.lag.ms", "" + DAY_MS), "none", 3 * DAY_MS, 0));
        Map<String, String> delete = Map.of("segment.bytes", "1048576", "file.delete.delay.ms", "1000");
        all.add(new Case("size", with(delete, "retention.bytes", "2000000"), "none", 60_000, 0));
        all.add(new Case("size-zero", with(delete, "retention.bytes", "0"), "none", 60_000, 0));
        all.add(new Case("time", with(delete, "retention.ms", "" + DAY_MS), "none", 3 * DAY_MS, 0));
        all.add(new Case("time-all", with(delete, "retention.ms", "" + DAY_MS), "none", 9 * DAY_MS, 3 * DAY_MS));
        all.add(new Case("time-future", with(delete, "retention.ms", "1000"), "none", -3_000_000, -3_000_000));
        all.add(new Case("for-ever", with(delete, "retention.ms", "-1"), "none", 9 * DAY_MS, 3 * DAY_MS));
        return all;
    }

    private static Map<String, String> compact(String policy) {
        return Map.of("cleanup.policy", policy, "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.0",
                "file.delete.delay.ms", "1000");
    }

    private static Map<String, String> with(Map<String, String> configs, String name, String value) {
        Map<String, String> more = new HashMap<>(configs);
        more.put(name, value);
        return more;
    }

    /** Arguments: feed or read, the address; for feed, what now is in ms since 1970. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[1]));
        if (arguments[0].equals("feed")) {
            for (Case one : cases()) {
                feed(settings, one, Long.parseLong(arguments[2]));
            }
        } else {
            read(settings);
        }
    }

    private static void feed(Map<String, Object> settings, Case one, long nowMs) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            NewTopic topic = new NewTopic(one.topic, 1, (short) 1).configs(one.configs);
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
                    producer.send(new ProducerRecord<>(one.topic, 0, nowMs - ageMs, key, deletes ? null : value));
                }
                producer.flush();
            }
        }
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
                                + " " + record.timestampType() + " " + Arrays.hashCode(record.value()));
                    }
                }
            }
        }
    }
}
