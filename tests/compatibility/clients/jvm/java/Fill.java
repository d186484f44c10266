import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a topic of one partition with segments of 1 MiB of every codec, seals the last one with one
 * record more, and prints how many records are in the sealed ones. Usage: Fill HOST:PORT TOPIC
 */
public final class Fill {
    private static final int RECORDS_PER_CODEC = 3_000;
    private static final int VALUE_BYTES_MAX = 1_024;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        try (Admin admin = Admin.create(Drive.settings(bootstrap))) {
            Map<String, String> small = Map.of("segment.bytes", "1048576");
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) -1).configs(small))).all().get();
            Random random = new Random(1);
            for (String codec : Sent.CODECS) {
                send(bootstrap, topic, codec, RECORDS_PER_CODEC, random);
            }
            AlterConfigOp soon = new AlterConfigOp(new ConfigEntry("segment.ms", "1"), AlterConfigOp.OpType.SET);
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(soon))).all().get();
            Thread.sleep(10); // older than segment.ms is what the next record must find the segment to be
            send(bootstrap, topic, "none", 1, random);
        }
        System.out.println(Sent.CODECS.size() * RECORDS_PER_CODEC);
    }

    private static void send(String bootstrap, String topic, String codec, int records, Random random) {
        Map<String, Object> settings = new HashMap<>(Drive.settings(bootstrap));
        settings.put("compression.type", codec);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < records; number++) {
                byte[] value = new byte[random.nextInt(VALUE_BYTES_MAX)];
                random.nextBytes(value); // random bytes stay as large under every codec
                producer.send(new ProducerRecord<>(topic, new byte[] {(byte) number}, value), (answer, failure) -> {
                    if (failure != null) {
                        failure.printStackTrace();
                        System.exit(1);
                    }
                });
            }
        }
    }

    private Fill() {}
}
