// What checks need of a broker beside groups: topics, records and committed offsets.

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.LongUnaryOperator;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

final class Cluster implements AutoCloseable {
    final Broker broker;
    final Admin admin;

    Cluster(Broker broker) {
        this.broker = broker;
        this.admin = Admin.create(broker.properties());
    }

    void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.empty()))).all().get();
    }

    void grow(String topic, int partitions) throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all().get();
    }

    /** So many records in each partition of a range, of now. */
    void fill(String topic, int from, int to, long records) throws Exception {
        fill(topic, from, to, records, number -> System.currentTimeMillis());
    }

    void fill(String topic, int from, int to, long records, LongUnaryOperator timestamp) throws Exception {
        var properties = broker.properties();
        properties.put("linger.ms", "20");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            var last = new java.util.ArrayList<java.util.concurrent.Future<?>>();
            for (long number = 0; number < records; number++) {
                for (int partition = from; partition < to; partition++) {
                    var sent = producer.send(new ProducerRecord<>(topic, partition, timestamp.applyAsLong(number),
                        null, "value-" + partition + "-" + number));
                    if (number == records - 1) {
                        last.add(sent);
                    }
                }
            }
            producer.flush();
            for (var sent : last) {
                sent.get();
            }
        }
    }

    /** The offsets that a group has committed, by partition, of one topic. */
    Map<Integer, Long> committed(String group, String topic) throws Exception {
        var found = new TreeMap<Integer, Long>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((at, offset) -> {
            if (offset != null && at.topic().equals(topic)) {
                found.put(at.partition(), offset.offset());
            }
        });
        return found;
    }

    ConsumerGroupDescription describe(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group);
    }

    static List<TopicPartition> partitions(String topic, Collection<Integer> numbers) {
        return numbers.stream().map(number -> new TopicPartition(topic, number)).toList();
    }

    @Override
    public void close() {
        admin.close();
    }
}
