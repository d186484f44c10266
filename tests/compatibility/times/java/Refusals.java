import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ProduceResponseData.BatchIndexAndErrorMessage;
import org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** Batches with timestamps that some topics do not allow: prints each answer's error, the records that it names, and its offset. */
public final class Refusals {
    private static final long HOUR = 60 * Cases.MINUTE;
    private static final String BEFORE = "message.timestamp.before.max.ms";
    private static final String AFTER = "message.timestamp.after.max.ms";
    private static final String TYPE = "message.timestamp.type";

    private record Topic(String name, Map<String, String> configs) {}

    /** Times are from now on; far enough from each bound that the clock decides nothing. */
    private record Batch(String name, long... times) {}

    private static final List<Topic> TOPICS = List.of(
            new Topic("defaults", Map.of()),
            new Topic("before", Map.of(BEFORE, "" + HOUR)),
            new Topic("after", Map.of(AFTER, "" + HOUR)),
            new Topic("both", Map.of(BEFORE, "" + HOUR, AFTER, "" + HOUR)),
            new Topic("none-before", Map.of(BEFORE, "0", AFTER, "" + Long.MAX_VALUE)),
            new Topic("append-time", Map.of(BEFORE, "0", AFTER, "0", TYPE, "LogAppendTime")));

    private static final List<Batch> BATCHES = List.of(
            new Batch("now", 0, 0, 0),
            new Batch("missing", Cases.NONE, Cases.NONE),
            new Batch("old", -2 * HOUR),
            new Batch("old-last", 0, 0, -2 * HOUR),
            new Batch("old-some", -2 * HOUR, 0, -3 * HOUR, 0, -2 * HOUR),
            new Batch("old-and-missing", Cases.NONE, -2 * HOUR, Cases.NONE),
            new Batch("old-1970", 0, Cases.FIRST),
            new Batch("future", 2 * HOUR),
            new Batch("future-some", 0, 2 * HOUR, 0, 3 * HOUR),
            new Batch("future-and-missing", Cases.NONE, 2 * HOUR),
            new Batch("old-and-future", 2 * HOUR, 0, -2 * HOUR, 3 * HOUR),
            new Batch("all-but-one", 2 * HOUR, 2 * HOUR, 0, 2 * HOUR, 2 * HOUR, 2 * HOUR, -2 * HOUR, -2 * HOUR));

    private Refusals() {}

    /** Argument: the address. */
    public static void main(String[] arguments) throws Exception {
        long now = System.currentTimeMillis();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0])); Wire wire = new Wire(arguments[0])) {
            List<NewTopic> topics = new ArrayList<>();
            TOPICS.forEach(topic -> topics.add(new NewTopic(name(topic), 1, (short) 1).configs(topic.configs)));
            admin.createTopics(topics).all().get();
            for (Topic topic : TOPICS) {
                for (String codec : List.of("none", "lz4")) {
                    for (Batch batch : BATCHES) {
                        print(topic, batch.name + ", " + codec, wire.produceToNew(name(topic), records(codec, batch, TimestampType.CREATE_TIME, now)));
                    }
                }
            }
            // Last, since one broker appends them.
            for (Topic topic : TOPICS) {
                print(topic, "append-time", wire.produceToNew(name(topic), records("none", BATCHES.get(0), TimestampType.LOG_APPEND_TIME, now)));
            }
        }
    }

    private static void print(Topic topic, String what, PartitionProduceResponse answer) {
        System.out.println(name(topic) + " given " + what + ": " + printed(answer));
    }

    private static String name(Topic topic) {
        return "refusing-" + topic.name;
    }

    private static MemoryRecords records(String codec, Batch batch, TimestampType type, long now) {
        SimpleRecord[] records = new SimpleRecord[batch.times.length];
        for (int at = 0; at < records.length; at++) {
            records[at] = new SimpleRecord(Cases.time(now, batch.times[at]), new byte[] {(byte) at}, new byte[100]);
        }
        Compression compression = Compression.of(CompressionType.forName(codec)).build();
        return MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 0, compression, type, records);
    }

    private static String printed(PartitionProduceResponse answer) {
        List<Integer> named = answer.recordErrors().stream().map(BatchIndexAndErrorMessage::batchIndex).toList();
        String appended = answer.logAppendTimeMs() < 0 ? "" : ", with the broker's time";
        return Errors.forCode(answer.errorCode()) + " " + named + ", offset " + answer.baseOffset() + ", start "
                + answer.logStartOffset() + appended;
    }
}
