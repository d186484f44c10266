// A member of a group by Kafka's own client: prints "PARTITION OFFSET" for each record that it read, and
// commits. Ends, and leaves the group, when its input does.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Member {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "partition.assignment.strategy", arguments[3],
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "session.timeout.ms", "6000",
            "heartbeat.interval.ms", "300",
            "metadata.max.age.ms", "500",
            "max.poll.records", "20");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                var records = consumer.poll(Duration.ofMillis(100));
                for (var record : records) {
                    System.out.println(record.partition() + " " + record.offset());
                }
                if (!records.isEmpty()) {
                    consumer.commitSync();
                }
            }
        }
    }
}
