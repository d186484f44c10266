// Fills topics with the same batches on every broker: the same keys and values in the same order, in batches that are full.
// Started from source.

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Filler {
    /** Less than the producer's memory holds: when that is short it sends batches that are not full. */
    private static final int RECORDS_BETWEEN = 8_192;
    private static final int KEY_BYTES = 8;

    /** Arguments: address, partitions, records of a topic, bytes of a record, keys, exponent, codec, topics. */
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        int bytes = Integer.parseInt(arguments[3]);
        int keys = Integer.parseInt(arguments[4]);
        double[] shares = shares(keys, Double.parseDouble(arguments[5]));
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "batch.size", 16_384, "linger.ms", 600_000,
                "delivery.timeout.ms", 1_200_000, "buffer.memory", 2L * RECORDS_BETWEEN * bytes, "compression.type", arguments[6]);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int topic = 7; topic < arguments.length; topic++) {
                fill(producer, arguments[topic], partitions, records, bytes, shares);
            }
        }
    }

    private static void fill(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int records, int bytes,
            double[] shares) throws Exception {
        Random random = new Random(records);
        Semaphore between = new Semaphore(RECORDS_BETWEEN);
        AtomicReference<Exception> failure = new AtomicReference<>();
        for (int record = 0; record < records; record++) {
            int key = pick(shares, random);
            byte[] value = new byte[bytes - KEY_BYTES];
            // Half of it can be compressed away.
            random.nextBytes(value);
            java.util.Arrays.fill(value, value.length / 2, value.length, (byte) 0);
            between.acquire();
            var one = new ProducerRecord<>(topic, key % partitions, ByteBuffer.allocate(KEY_BYTES).putLong(key).array(), value);
            producer.send(one, (placed, failed) -> {
                between.release();
                if (failed != null) {
                    failure.compareAndSet(null, failed);
                }
            });
        }
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    /** Of each key, the share of it and of all before it. */
    private static double[] shares(int keys, double exponent) {
        double[] shares = new double[keys];
        double sum = 0;
        for (int key = 0; key < keys; key++) {
            sum += Math.pow(key + 1, -exponent);
            shares[key] = sum;
        }
        return shares;
    }

    private static int pick(double[] shares, Random random) {
        int found = java.util.Arrays.binarySearch(shares, random.nextDouble() * shares[shares.length - 1]);
        return Math.min(found < 0 ? -found - 1 : found, shares.length - 1);
    }
}
