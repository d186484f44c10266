import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** What is sent and expects to be read back, the same as in the other drivers. Knows no broker. */
final class Sent {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final int COUNT = 10_000;
    static final int PARTITIONS = 2;
    /** A minute ago: old records are not kept. */
    static final long START_MS = System.currentTimeMillis() - 60_000;

    /** Record of a number; its partition is the number modulo PARTITIONS. */
    static ProducerRecord<byte[], byte[]> record(String topic, int number) {
        byte[] key = ("key-" + number).getBytes(UTF_8);
        byte[] value = ("value-" + number + "-" + "x".repeat(number % 50)).getBytes(UTF_8);
        List<Header> headers = List.of(
                new RecordHeader("number", Integer.toString(number).getBytes(UTF_8)),
                new RecordHeader("empty", new byte[0]));
        return new ProducerRecord<>(topic, number % PARTITIONS, START_MS + number, key, value, headers);
    }

    /** Compares what was read from a partition, from this offset on, with what was sent to it. */
    static void expect(String topic, int partition, long from, List<ConsumerRecord<byte[], byte[]>> got) {
        Drive.same((int) (COUNT / PARTITIONS - from), got.size());
        long offset = from;
        for (ConsumerRecord<byte[], byte[]> have : got) {
            ProducerRecord<byte[], byte[]> want = record(topic, (int) offset * PARTITIONS + partition);
            boolean equal = have.offset() == offset
                    && have.timestamp() == want.timestamp()
                    && Arrays.equals(have.key(), want.key())
                    && Arrays.equals(have.value(), want.value())
                    && Arrays.equals(have.headers().toArray(), want.headers().toArray());
            Drive.holds(equal, "partition " + partition + ", offset " + offset + ": " + have + " is not " + want);
            offset++;
        }
    }

    private Sent() {}
}
