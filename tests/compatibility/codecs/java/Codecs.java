import java.nio.ByteBuffer;
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
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Batches in each codec for topics of each compression.type: prints what is answered, and each batch and record that is kept. */
public final class Codecs {
    private static final List<String> TYPES = List.of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd");
    private static final List<String> SENT = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final List<String> STAMPS = List.of("CreateTime", "LogAppendTime");
    private static final List<List<String>> LEVELS = List.of(
            List.of("gzip", "1"), List.of("gzip", "9"), List.of("lz4", "1"), List.of("lz4", "17"), List.of("zstd", "-7"), List.of("zstd", "19"));
    private static final String TYPE = "compression.type";
    private static final int MAX = 10_000;
    private static final int RECORDS = 12;
    private static final int CLIENT_RECORDS = 300;
    private static final int WAIT_S = 30;

    /** A value's size and what it is made of. */
    private record Value(String name, int bytes, boolean random) {
        byte[] made() {
            byte[] made = new byte[bytes];
            Random source = new Random(bytes);
            if (random) {
                source.nextBytes(made);
            } else {
                for (int at = 0; at < bytes; at++) {
                    made[at] = (byte) "order customer shipped ".charAt((at + source.nextInt(3)) % 23);
                }
            }
            return made;
        }
    }

    /** Far enough from the bound that no codec's own way of writing decides. */
    private static final List<Value> SIZES = List.of(
            new Value("small", 1_000, false), new Value("middling", 9_000, false), new Value("noise", 9_000, true),
            new Value("text", 30_000, false), new Value("long text", 300_000, false), new Value("much noise", 11_000, true));

    private final Admin admin;
    private final Wire wire;
    private final String address;
    private final long now = System.currentTimeMillis();

    private Codecs(Admin admin, Wire wire, String address) {
        this.admin = admin;
        this.wire = wire;
        this.address = address;
    }

    /** Argument: the address. */
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0])); Wire wire = new Wire(arguments[0])) {
            Codecs codecs = new Codecs(admin, wire, arguments[0]);
            for (String type : TYPES) {
                for (String stamp : STAMPS) {
                    codecs.each(type + "-" + stamp, Map.of(TYPE, type, "message.timestamp.type", stamp));
                }
                codecs.sizes(type);
                codecs.client(type);
            }
            for (List<String> level : LEVELS) {
                String name = level.get(0) + "-at" + level.get(1);
                codecs.each(name, Map.of(TYPE, level.get(0), "compression." + level.get(0) + ".level", level.get(1)));
            }
            codecs.changes();
        }
    }

    /** Every codec, each batch twice, of one producer. */
    private void each(String topic, Map<String, String> configs) throws Exception {
        create(topic, configs);
        int sequence = 0;
        for (String codec : SENT) {
            MemoryRecords batch = shapes(codec, sequence);
            print(topic + " given " + codec, answer(topic, batch));
            print(topic + " given " + codec + " again", answer(topic, batch));
            sequence += RECORDS;
        }
        print(topic + " given a gap", answer(topic, shapes("zstd", sequence + 1)));
        kept(topic, 0, SENT.size() * RECORDS);
    }

    /** What is refused by its size. */
    private void sizes(String type) throws Exception {
        String topic = type + "-sizes";
        create(topic, Map.of(TYPE, type, "max.message.bytes", "" + MAX));
        for (Value value : SIZES) {
            for (String codec : SENT) {
                SimpleRecord record = new SimpleRecord(now, new byte[] {1}, value.made());
                Compression compression = Compression.of(CompressionType.forName(codec)).build();
                print(topic + " given " + value.name + " in " + codec, answer(topic, MemoryRecords.withRecords(compression, record)));
            }
        }
    }

    /** A topic whose codec changes between batches. */
    private void changes() throws Exception {
        create("changes", Map.of());
        long offset = 0;
        for (String type : TYPES) {
            ConfigEntry entry = new ConfigEntry(TYPE, type);
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, "changes");
            admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
            settle(resource, type);
            print("changes to " + type, answer("changes", shapes("snappy", (int) offset)));
            kept("changes", offset, offset + RECORDS);
            offset += RECORDS;
        }
    }

    /** Kafka answers before its brokers have heard of a change. */
    private void settle(ConfigResource resource, String type) throws Exception {
        for (int round = 0; round < WAIT_S * 20; round++) {
            if (admin.describeConfigs(List.of(resource)).all().get().get(resource).get(TYPE).value().equals(type)) {
                break;
            }
            Thread.sleep(50);
        }
        // The log's own settings follow those that are described.
        Thread.sleep(500);
    }

    /** The client as applications have it: idempotent, with acks=all and several requests in flight. */
    private void client(String type) throws Exception {
        for (String codec : SENT) {
            String topic = type + "-client-" + codec;
            create(topic, Map.of(TYPE, type));
            Map<String, Object> configs = new HashMap<>(Map.of("bootstrap.servers", address, "compression.type", codec, "linger.ms", "5"));
            try (var producer = new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int at = 0; at < CLIENT_RECORDS; at++) {
                    byte[] value = new Value("", at * 37, at % 2 == 0).made();
                    List<Header> headers = List.of(new RecordHeader("at", new byte[] {(byte) at}));
                    producer.send(new ProducerRecord<>(topic, 0, now + at, ("" + at).getBytes(), value, headers));
                }
            }
            Map<String, Object> reading = Map.of("bootstrap.servers", address, "check.crcs", "true");
            long sum = 0;
            int count = 0;
            try (var consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                TopicPartition partition = new TopicPartition(topic, 0);
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long deadline = System.currentTimeMillis() + WAIT_S * 1_000;
                while (count < CLIENT_RECORDS && System.currentTimeMillis() < deadline) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(java.time.Duration.ofMillis(200))) {
                        sum = 31 * sum + Arrays.hashCode(record.key()) + 7L * Arrays.hashCode(record.value())
                                + record.offset() + 3 * (record.timestamp() - now) + record.headers().lastHeader("at").value()[0];
                        count++;
                    }
                }
            }
            System.out.println(topic + " by the client: " + count + " records, sum " + sum);
            List<String> stored = new ArrayList<>();
            for (MutableRecordBatch batch : wire.fetch(topic, 0).batches()) {
                if (!stored.contains(batch.compressionType().name)) {
                    stored.add(batch.compressionType().name);
                }
            }
            System.out.println(topic + " is kept in: " + stored);
        }
    }

    private void create(String topic, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(configs))).all().get();
    }

    private PartitionProduceResponse answer(String topic, MemoryRecords batch) throws Exception {
        return wire.produceToNew(topic, batch);
    }

    private static void print(String what, PartitionProduceResponse answer) {
        String stamped = answer.logAppendTimeMs() < 0 ? "" : ", with the broker's time";
        System.out.println(what + ": " + Errors.forCode(answer.errorCode()) + " offset " + answer.baseOffset() + stamped);
    }

    /** Keys, values and headers of every shape; times that go back and forth. */
    private MemoryRecords shapes(String codec, int sequence) {
        SimpleRecord[] records = new SimpleRecord[RECORDS];
        for (int at = 0; at < RECORDS; at++) {
            byte[] key = at % 3 == 0 ? null : new byte[] {(byte) at};
            byte[] value = at % 4 == 0 ? null : new Value("", at % 4 == 1 ? 0 : at * 9_000, at == 7).made();
            Header[] headers = at % 2 == 0 ? new Header[0] : new Header[] {new RecordHeader("h", (byte[]) null), new RecordHeader("h", new byte[at])};
            records[at] = new SimpleRecord(now + at % 5 * 1_000 - at % 2 * 7_777, key, value, headers);
        }
        Compression compression = Compression.of(CompressionType.forName(codec)).build();
        return MemoryRecords.withIdempotentRecords(compression, 4_711, (short) 3, sequence, records);
    }

    private void kept(String topic, long from, long end) throws Exception {
        for (long offset = from; offset < end;) {
            long before = offset;
            for (MutableRecordBatch batch : wire.fetch(topic, offset).batches()) {
                batch.ensureValid();
                print(topic, batch);
                offset = batch.nextOffset();
            }
            if (offset == before) {
                System.out.println(topic + " at " + offset + ": nothing");
                return;
            }
        }
    }

    private void print(String topic, MutableRecordBatch batch) {
        boolean stamped = batch.timestampType() == TimestampType.LOG_APPEND_TIME;
        System.out.println(topic + " at " + batch.baseOffset() + ": " + batch.compressionType().name + ", last " + batch.lastOffset()
                + ", producer " + batch.producerId() + " " + batch.producerEpoch() + " " + batch.baseSequence() + "-" + batch.lastSequence()
                + ", epoch " + batch.partitionLeaderEpoch() + ", " + batch.timestampType() + " " + (stamped ? "of the broker" : batch.maxTimestamp() - now)
                + (batch.isTransactional() ? ", transactional" : "") + (batch.isControlBatch() ? ", control" : ""));
        for (Record record : batch) {
            System.out.println(topic + " record " + record.offset() + ": time "
                    + (stamped ? "of its batch " + (record.timestamp() == batch.maxTimestamp()) : record.timestamp() - now) + ", sequence " + record.sequence()
                    + ", key " + hash(record.key()) + ", value " + hash(record.value()) + ", headers " + printed(record.headers()));
        }
    }

    private static String hash(ByteBuffer bytes) {
        return bytes == null ? "null" : bytes.remaining() + " bytes " + bytes.hashCode();
    }

    private static String printed(Header[] headers) {
        return Arrays.stream(headers).map(header -> header.key() + "=" + Arrays.toString(header.value())).toList().toString();
    }
}
