import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsPartitionResponse;
import org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Feeds the topics of the table to a broker, and prints what the broker then answers: a line for each question. */
public final class Lookups {
    private static final long CLEAN_MS_MAX = 120_000;
    private static final List<Byte> ISOLATIONS = List.of((byte) 0, (byte) 1);
    /** Those with a meaning of their own, latest to earliest pending upload, and some beyond. */
    private static final List<Long> SPECIAL = List.of(-1L, -2L, -3L, -4L, -5L, -6L, -7L, -100L, Long.MIN_VALUE);
    /** On these every version is asked. */
    private static final Set<String> OF_EACH_VERSION = Set.of("empty", "out-of-order", "missing", "all-deleted");

    private final String address;
    private final long base;

    private Lookups(String address, long base) {
        this.address = address;
        this.base = base;
    }

    /** Arguments: what to do; the address; the table's base in ms since 1970; for start, topics and offsets. */
    public static void main(String[] arguments) throws Exception {
        Lookups lookups = new Lookups(arguments[1], Long.parseLong(arguments[2]));
        switch (arguments[0]) {
            case "create" -> lookups.create();
            case "feed" -> lookups.feed();
            case "more" -> lookups.more();
            case "start" -> lookups.start(Arrays.asList(arguments).subList(3, arguments.length));
            case "ask" -> lookups.ask();
            case "records" -> lookups.records();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private void create() throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        Cases.all().forEach(topic -> topics.add(new NewTopic(topic.name(), 1, (short) 1).configs(topic.configs())));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.createTopics(topics).all().get();
        }
    }

    private void feed() throws Exception {
        create();
        Map<TopicPartition, RecordsToDelete> deleted = new HashMap<>();
        try (Wire wire = new Wire(address)) {
            for (Cases.Topic topic : Cases.all()) {
                feed(wire, topic);
                if (topic.deleteBefore() != 0) {
                    deleted.put(new TopicPartition(topic.name(), 0), RecordsToDelete.beforeOffset(topic.deleteBefore()));
                }
            }
        }
        delete(deleted);
        try (var consumer = consumer()) {
            for (Cases.Topic topic : Cases.all()) {
                if (topic.isCompacted()) {
                    waitUntilClean(consumer, topic);
                }
            }
        }
    }

    private void delete(Map<TopicPartition, RecordsToDelete> before) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.deleteRecords(before).all().get();
        }
    }

    /** Moves the starts of logs up, each given as TOPIC=OFFSET. */
    private void start(List<String> starts) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        for (String start : starts) {
            int at = start.indexOf('=');
            long offset = Long.parseLong(start.substring(at + 1));
            before.put(new TopicPartition(start.substring(0, at), 0), RecordsToDelete.beforeOffset(offset));
        }
        delete(before);
    }

    /** Appends to every topic but those where the broker says when that was. */
    private void more() throws Exception {
        try (Wire wire = new Wire(address)) {
            for (Cases.Topic topic : Cases.all()) {
                long end = wire.offset(topic.name(), -1, (byte) 0, Wire.LIST_OFFSETS_NEWEST).offset();
                for (Cases.Batch batch : topic.hasAppendTime() ? List.<Cases.Batch>of() : Cases.more()) {
                    var records = Cases.records(topic, batch, (int) end, base, number -> "more-" + number);
                    mustAppend(topic, wire.produceToNew(topic.name(), records), end);
                    end += batch.times().length;
                }
            }
        }
    }

    private void feed(Wire wire, Cases.Topic topic) throws Exception {
        int number = 0;
        long appended = -1;
        for (Cases.Batch batch : topic.batches()) {
            // Each batch has a time of its own, and some are between two.
            while (topic.hasAppendTime() && System.currentTimeMillis() <= appended + 3) {
                Thread.onSpinWait();
            }
            PartitionProduceResponse answer = wire.produceToNew(topic.name(), Cases.records(topic, batch, number, base, Cases::key));
            mustAppend(topic, answer, number);
            number += batch.times().length;
            appended = answer.logAppendTimeMs();
        }
    }

    private static void mustAppend(Cases.Topic topic, PartitionProduceResponse answer, long at) {
        if (answer.errorCode() != 0 || answer.baseOffset() != at) {
            throw new IllegalStateException(topic.name() + ", batch at " + at + ": " + answer);
        }
    }

    /** All but the active segment, which holds the last batch, has each key once. */
    private static void waitUntilClean(KafkaConsumer<byte[], byte[]> consumer, Cases.Topic topic) throws InterruptedException {
        Map<String, Long> newest = new HashMap<>();
        long end = 0;
        for (Cases.Batch batch : topic.batches()) {
            end += batch.times().length;
        }
        long active = end - topic.batches()[topic.batches().length - 1].times().length;
        for (long offset = 0; offset < active; offset++) {
            newest.put(Cases.key((int) offset), offset);
        }
        Set<Long> expected = new TreeSet<>(newest.values());
        for (long offset = active; offset < end; offset++) {
            expected.add(offset);
        }
        long deadline = System.currentTimeMillis() + CLEAN_MS_MAX;
        Set<Long> left = Set.of();
        while (System.currentTimeMillis() < deadline) {
            left = read(consumer, topic.name()).stream().map(ConsumerRecord::offset).collect(Collectors.toCollection(TreeSet::new));
            if (left.equals(expected)) {
                return;
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException(topic.name() + " is not clean: " + left + " are left, not " + expected);
    }

    private void records() {
        try (var consumer = consumer()) {
            for (Cases.Topic topic : Cases.all()) {
                for (ConsumerRecord<byte[], byte[]> record : read(consumer, topic.name())) {
                    System.out.println(topic.name() + " " + Printed.record(record));
                }
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "enable.auto.commit", "false", "auto.offset.reset",
                "none", "isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
        List<TopicPartition> only = List.of(new TopicPartition(topic, 0));
        consumer.assign(only);
        consumer.seekToBeginning(only);
        long end = consumer.endOffsets(only).get(only.get(0));
        while (consumer.position(only.get(0)) < end) {
            consumer.poll(Duration.ofSeconds(10)).forEach(all::add);
        }
        return all;
    }

    private void ask() throws IOException {
        try (Wire wire = new Wire(address)) {
            for (Cases.Topic topic : Cases.all()) {
                Printed printed = new Printed(base, topic.hasAppendTime() ? appendTimes(topic) : List.of());
                for (byte isolation : ISOLATIONS) {
                    for (long time : questions(topic, printed)) {
                        print(wire, topic.name(), time, isolation, Wire.LIST_OFFSETS_NEWEST, printed);
                    }
                }
            }
            eachVersion(wire);
            strangers(wire);
        }
    }

    /** Every record's time, the ms before and the one after it, far before and behind all, and the special ones. */
    private Set<Long> questions(Cases.Topic topic, Printed printed) {
        Set<Long> times = new TreeSet<>(SPECIAL);
        times.addAll(List.of(0L, 1L, base - 10_000 * Cases.DAY, base, base + 10_000 * Cases.DAY, Long.MAX_VALUE - 1, Long.MAX_VALUE));
        Set<Long> known = new TreeSet<>(printed.appendTimes());
        for (Cases.Batch batch : topic.batches()) {
            for (long time : batch.times()) {
                known.add(Cases.time(base, time));
            }
        }
        known.stream().filter(time -> time >= 0).forEach(time -> times.addAll(List.of(time - 1, time, time + 1)));
        return times;
    }

    private List<Long> appendTimes(Cases.Topic topic) {
        try (var consumer = consumer()) {
            return read(consumer, topic.name()).stream().map(ConsumerRecord::timestamp).distinct().toList();
        }
    }

    private void eachVersion(Wire wire) throws IOException {
        for (Cases.Topic topic : Cases.all()) {
            for (short version = Wire.LIST_OFFSETS_OLDEST; version < Wire.LIST_OFFSETS_NEWEST; version++) {
                for (long time : questions(topic, new Printed(base, List.of()))) {
                    if (OF_EACH_VERSION.contains(topic.name())) {
                        print(wire, topic.name(), time, (byte) 0, version, new Printed(base, List.of()));
                    }
                }
            }
        }
    }

    private void print(Wire wire, String topic, long time, byte isolation, short version, Printed printed) throws IOException {
        ListOffsetsPartitionResponse answer = wire.offset(topic, time, isolation, version);
        System.out.println(topic + " at " + printed.time(time) + ", isolation " + isolation + ", version " + version + ": "
                + printed.answer(answer));
    }

    /** Questions that are refused, or asked twice. */
    private void strangers(Wire wire) throws IOException {
        Printed printed = new Printed(base, List.of());
        for (long time : List.of(-1L, -2L, -3L, -5L, -7L, base)) {
            Map<String, List<ListOffsetsPartition>> asked = new TreeMap<>();
            asked.put("partition 1", List.of(partition(1, -1, time)));
            asked.put("partition -1", List.of(partition(-1, -1, time)));
            asked.put("epoch 1000", List.of(partition(0, 1_000, time)));
            asked.put("epoch -2", List.of(partition(0, -2, time)));
            asked.put("twice", List.of(partition(0, -1, time), partition(0, -1, base)));
            for (var one : asked.entrySet()) {
                for (var answer : wire.offsets("in-order", one.getValue(), (byte) 0, Wire.LIST_OFFSETS_NEWEST)) {
                    System.out.println("in-order, " + one.getKey() + ", at " + printed.time(time) + ": " + printed.answer(answer));
                }
            }
            System.out.println("no such topic at " + printed.time(time) + ": "
                    + printed.answer(wire.offset("no-such-topic", time, (byte) 0, Wire.LIST_OFFSETS_NEWEST)));
        }
    }

    private static ListOffsetsPartition partition(int index, int epoch, long time) {
        return new ListOffsetsPartition().setPartitionIndex(index).setCurrentLeaderEpoch(epoch).setTimestamp(time);
    }
}
