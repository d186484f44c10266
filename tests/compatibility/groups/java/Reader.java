// A member of a group by the Java client: it reads, and commits what it has read before it reads more and before it
// gives a partition away. Runs as a thread; or as a program, which lives until it is killed.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

final class Reader extends Thread implements ConsumerRebalanceListener {
    private final Properties properties;
    private final String topic;
    private final Tally tally;
    private final Map<TopicPartition, Long> uncommitted = new HashMap<>();
    private KafkaConsumer<String, String> consumer;
    private volatile Set<TopicPartition> owned = Set.of();
    private volatile boolean leaving;
    private volatile boolean stalled;
    private volatile Throwable failure;

    /** Reads the topic; or those whose names match, if it begins with "~". */
    Reader(String bootstrap, String group, String topic, Protocol protocol, Optional<String> instance, Tally tally) {
        this.topic = topic;
        this.tally = tally;
        setDaemon(true);
        properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("client.id", "reader");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("metadata.max.age.ms", "1000");
        properties.put("max.poll.interval.ms", "6000");
        properties.put("max.poll.records", "200");
        properties.putAll(protocol.properties());
        instance.ifPresent(id -> properties.put("group.instance.id", id));
    }

    @Override
    public void run() {
        try (var made = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer = made;
            subscribe();
            while (!leaving) {
                if (stalled) {
                    Thread.sleep(50);
                } else {
                    step();
                }
            }
            settle();
        } catch (Throwable thrown) {
            failure = thrown;
        } finally {
            owned = Set.of();
        }
    }

    private void subscribe() {
        if (!topic.startsWith("~")) {
            consumer.subscribe(Set.of(topic), this);
        } else if (properties.get("group.protocol").equals("consumer")) {
            consumer.subscribe(new SubscriptionPattern(topic.substring(1)), this);
        } else {
            consumer.subscribe(Pattern.compile(topic.substring(1)), this);
        }
    }

    private void step() {
        var records = consumer.poll(Duration.ofMillis(100));
        for (var record : records) {
            tally.read(record.topic(), record.partition(), record.offset());
            uncommitted.put(new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
        }
        owned = Set.copyOf(consumer.assignment());
        commit();
    }

    /** One that leaves while others join has its commit refused by its own client: it stays until they have joined. */
    private void settle() {
        long until = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (!uncommitted.isEmpty() && System.nanoTime() < until) {
            consumer.pause(consumer.assignment());
            step();
        }
    }

    /** A commit that is refused promises nothing: it is made again, if the partition is still this member's. */
    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        uncommitted.forEach((at, offset) -> offsets.put(at, new OffsetAndMetadata(offset)));
        try {
            consumer.commitSync(offsets, Duration.ofSeconds(20));
            uncommitted.forEach((at, offset) -> tally.committed(at.topic(), at.partition(), offset));
            uncommitted.clear();
        } catch (CommitFailedException | RebalanceInProgressException | TimeoutException refused) {
            return;
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        partitions.forEach(uncommitted::remove);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(uncommitted::remove);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        owned = Set.copyOf(consumer.assignment());
    }

    Set<TopicPartition> owned() {
        if (failure != null) {
            throw new Checks.Wrong("a member failed: " + failure);
        }
        return owned;
    }

    /** It stops to ask for records, and goes on. */
    void stall(boolean stalled) {
        this.stalled = stalled;
        if (stalled) {
            owned = Set.of();
        }
    }

    void leave() throws InterruptedException {
        leaving = true;
        join(60_000);
        Checks.that(!isAlive(), "a member does not leave");
        owned();
    }

    public static void main(String[] arguments) throws Exception {
        var reader = new Reader(arguments[0], arguments[1], arguments[2], Protocol.valueOf(arguments[3]),
            Optional.empty(), new Tally());
        reader.start();
        reader.join();
    }
}
