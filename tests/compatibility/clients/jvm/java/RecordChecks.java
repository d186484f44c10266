import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records there and back, by offset and by time, and those that are refused. */
final class RecordChecks {
    private final AdminChecks admin;
    private final String bootstrap;
    private final String prefix;

    RecordChecks(AdminChecks admin, String bootstrap, String prefix) {
        this.admin = admin;
        this.bootstrap = bootstrap;
        this.prefix = prefix;
    }

    void roundTrip(String name, String codec, boolean idempotent) throws Exception {
        String topic = prefix + "-" + name;
        admin.create(topic, Map.of());
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        // Without idempotence a retry would change the order of requests in flight.
        int inFlight = idempotent ? 5 : 1;
        Map<String, Object> settings = Map.of(
                "compression.type", codec, "enable.idempotence", idempotent, "acks", "all",
                "max.in.flight.requests.per.connection", inFlight);
        try (var producer = producer(settings)) {
            for (int number = 0; number < Sent.COUNT; number++) {
                answers.add(producer.send(Sent.record(topic, number)));
            }
            producer.flush();
            for (int number = 0; number < Sent.COUNT; number++) {
                Drive.same((long) number / Sent.PARTITIONS, answers.get(number).get().offset());
            }
        }
        for (int partition = 0; partition < Sent.PARTITIONS; partition++) {
            Sent.expect(topic, partition, 0, read(topic, partition, 0));
        }
    }

    void offset() {
        String topic = prefix + "-zstd";
        Sent.expect(topic, 0, 4000, read(topic, 0, 4000));
    }

    void timestamp() throws Exception {
        String topic = prefix + "-gzip";
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        try (var consumer = consumer()) {
            Map<TopicPartition, OffsetAndTimestamp> found =
                    consumer.offsetsForTimes(Map.of(one, Sent.START_MS + 5000, zero, Sent.START_MS + Sent.COUNT));
            Drive.same(2500L, found.get(one).offset());
            Drive.same(Sent.START_MS + 5001, found.get(one).timestamp());
            Drive.holds(found.get(zero) == null, found);
            long at = found.get(one).offset();
            Sent.expect(topic, 1, at, read(topic, 1, at));
        }
        var newest = admin.offsets(OffsetSpec.maxTimestamp(), zero, one);
        Drive.same(Sent.COUNT / 2 - 1L, newest.get(zero).offset());
        Drive.same(Sent.START_MS + Sent.COUNT - 2, newest.get(zero).timestamp());
        Drive.same(Sent.START_MS + Sent.COUNT - 1, newest.get(one).timestamp());
    }

    void errors() throws Exception {
        String small = prefix + "-small";
        admin.create(small, Map.of("max.message.bytes", "1000"));
        try (var producer = producer(Map.of("max.block.ms", 3000))) {
            ProducerRecord<byte[], byte[]> large = new ProducerRecord<>(small, new byte[5000]);
            Drive.fails(RecordTooLargeException.class, () -> producer.send(large).get());
            ProducerRecord<byte[], byte[]> beyond = new ProducerRecord<>(small, 99, null, new byte[1]);
            Drive.fails(TimeoutException.class, () -> producer.send(beyond).get());
        }
        Drive.fails(OffsetOutOfRangeException.class, () -> read(prefix + "-none", 0, Sent.COUNT));
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> own) {
        Map<String, Object> settings = new HashMap<>(Drive.settings(bootstrap));
        settings.putAll(own);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = new HashMap<>(Drive.settings(bootstrap));
        settings.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Everything in a partition from an offset on, offset 0 by seeking to the beginning. */
    private List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long offset) {
        TopicPartition from = new TopicPartition(topic, partition);
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        try (var consumer = consumer()) {
            consumer.assign(List.of(from));
            if (offset == 0) {
                consumer.seekToBeginning(List.of(from));
            } else {
                consumer.seek(from, offset);
            }
            long end = consumer.endOffsets(List.of(from)).get(from);
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            do {
                consumer.poll(Duration.ofSeconds(1)).forEach(got::add);
                Drive.holds(System.nanoTime() < deadline, "only " + got.size() + " records of " + from + " in 20 s");
            } while (consumer.position(from) < end);
        }
        return got;
    }
}
