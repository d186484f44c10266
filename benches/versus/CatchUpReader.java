// Reads topics from their beginnings to a given number of records, one after the other, and prints for each how
// long that took. It assigns itself all partitions, so that no consumer group is needed. Started from source.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class CatchUpReader {
    /** The Java consumer's own defaults, in so many words. */
    private static final Map<String, Object> CONSUMER = Map.of(
            "enable.auto.commit", "false",
            "fetch.min.bytes", "1",
            "fetch.max.bytes", "52428800",
            "max.partition.fetch.bytes", "1048576",
            "receive.buffer.bytes", "65536",
            "max.poll.records", "500",
            "check.crcs", "true");

    private static final Duration SILENCE_MAX = Duration.ofSeconds(30);

    /** Arguments: address, partitions, then topic and number of records as often as wanted. */
    public static void main(String[] arguments) {
        int partitions = Integer.parseInt(arguments[1]);
        for (int at = 2; at < arguments.length; at += 2) {
            read(arguments[0], arguments[at], partitions, Long.parseLong(arguments[at + 1]));
        }
    }

    private static void read(String address, String topic, int partitions, long recordsWanted) {
        Map<String, Object> settings = new HashMap<>(CONSUMER);
        settings.put("bootstrap.servers", address);
        List<TopicPartition> assignment = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            assignment.add(new TopicPartition(topic, partition));
        }
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, deserializer, deserializer)) {
            consumer.assign(assignment);
            consumer.seekToBeginning(assignment);
            long start = System.nanoTime();
            long records = 0;
            long bytes = 0;
            while (records < recordsWanted) {
                var polled = consumer.poll(SILENCE_MAX);
                if (polled.isEmpty()) {
                    throw new IllegalStateException(topic + " ends at record " + records + " of " + recordsWanted);
                }
                records += polled.count();
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    bytes += record.value().length;
                }
            }
            System.out.printf("%s %d %d %.6f%n", topic, records, bytes, (System.nanoTime() - start) / 1e9);
            System.out.flush();
        }
    }
}
