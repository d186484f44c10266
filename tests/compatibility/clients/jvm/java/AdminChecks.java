import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What the admin client asks of a broker, and what it is refused. */
final class AdminChecks implements AutoCloseable {
    private final Admin admin;
    private final String prefix;

    AdminChecks(String bootstrap, String prefix) {
        this.admin = Admin.create(Drive.settings(bootstrap));
        this.prefix = prefix;
    }

    @Override
    public void close() {
        admin.close();
    }

    void create(String topic, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(newTopic(topic, configs))).all().get();
    }

    Map<TopicPartition, ListOffsetsResultInfo> offsets(OffsetSpec spec, TopicPartition... partitions)
            throws Exception {
        Function<TopicPartition, OffsetSpec> same = partition -> spec;
        return admin.listOffsets(Arrays.stream(partitions).collect(Collectors.toMap(Function.identity(), same)))
                .all().get();
    }

    void topics() throws Exception {
        String topic = prefix + "-admin";
        create(topic, Map.of("retention.ms", "1000"));
        Drive.soon(() -> Drive.same("1000", config(topic, "retention.ms").value()));
        Drive.holds(config(topic, "segment.bytes").isDefault(), config(topic, "segment.bytes"));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        Drive.soon(() -> Drive.same(3, describe(topic).partitions().size()));
        admin.deleteTopics(List.of(topic)).all().get();
        Drive.soon(() -> Drive.holds(!admin.listTopics().names().get().contains(topic), topic));
    }

    void errors() throws Exception {
        String topic = prefix + "-none";
        String missing = prefix + "-missing";
        Drive.fails(InvalidConfigurationException.class, () -> create(prefix + "-bad", Map.of("retention.ms", "soon")));
        Drive.fails(InvalidConfigurationException.class, () -> create(prefix + "-bad", Map.of("no.such.config", "1")));
        Drive.fails(InvalidConfigurationException.class, () -> alter(topic, OpType.SET, "retention.ms", "soon"));
        Drive.fails(TopicExistsException.class, () -> create(topic, Map.of()));
        Drive.fails(InvalidTopicException.class, () -> create("no spaces", Map.of()));
        Drive.fails(InvalidReplicationFactorException.class,
                () -> admin.createTopics(List.of(new NewTopic(prefix + "-bad", 1, (short) 3))).all().get());
        Drive.fails(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get());
        Drive.fails(UnknownTopicOrPartitionException.class, () -> describe(missing));
        Drive.fails(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(missing)).all().get());
        Drive.fails(UnknownTopicOrPartitionException.class, () -> config(missing, "retention.ms"));
        TopicPartition partition = new TopicPartition(topic, 0);
        Drive.fails(OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(Sent.COUNT))).all().get());
    }

    void validateOnly() throws Exception {
        String topic = prefix + "-validated";
        var options = new CreateTopicsOptions().validateOnly(true);
        var answer = admin.createTopics(List.of(newTopic(topic, Map.of("retention.ms", "1000"))), options);
        answer.all().get();
        Drive.same(Sent.PARTITIONS, answer.numPartitions(topic).get());
        Drive.same("1000", answer.config(topic).get().get("retention.ms").value());
        Drive.fails(InvalidConfigurationException.class,
                () -> admin.createTopics(List.of(newTopic(topic, Map.of("retention.ms", "soon"))), options).all().get());
        Drive.holds(!admin.listTopics().names().get().contains(topic), "a topic that was only to be validated");
    }

    void topicIds() throws Exception {
        String topic = prefix + "-ids";
        var answer = admin.createTopics(List.of(newTopic(topic, Map.of())));
        Uuid id = answer.topicId(topic).get();
        Drive.soon(() -> Drive.same(id, describe(topic).topicId()));
        TopicDescription described = byId(id);
        Drive.same(topic, described.name());
        Drive.same(Sent.PARTITIONS, described.partitions().size());
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        Drive.soon(() -> Drive.fails(UnknownTopicIdException.class, () -> byId(id)));
    }

    void alterConfigs() throws Exception {
        String topic = prefix + "-configs";
        create(topic, Map.of());
        alter(topic, OpType.SET, "retention.ms", "1000");
        Drive.soon(() -> Drive.same("1000", config(topic, "retention.ms").value()));
        alter(topic, OpType.DELETE, "retention.ms", "");
        Drive.soon(() -> Drive.same("604800000", config(topic, "retention.ms").value()));
        Drive.holds(config(topic, "retention.ms").isDefault(), config(topic, "retention.ms"));
        alter(topic, OpType.APPEND, "cleanup.policy", "compact");
        Drive.soon(() -> Drive.same("delete,compact", config(topic, "cleanup.policy").value()));
        alter(topic, OpType.SUBTRACT, "cleanup.policy", "delete");
        Drive.soon(() -> Drive.same("compact", config(topic, "cleanup.policy").value()));
        var validate = new AlterConfigsOptions().validateOnly(true);
        admin.incrementalAlterConfigs(change(topic, OpType.SET, "retention.ms", "2000"), validate).all().get();
        Drive.soon(() -> Drive.same("604800000", config(topic, "retention.ms").value()));
    }

    void cluster() throws Exception {
        var answer = admin.describeCluster();
        Collection<Node> nodes = answer.nodes().get();
        Drive.same(1, nodes.size());
        Node node = nodes.iterator().next();
        Drive.same(node.id(), answer.controller().get().id());
        Drive.holds(!answer.clusterId().get().isEmpty(), answer.clusterId().get());
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
        Config configs = admin.describeConfigs(List.of(broker)).all().get().get(broker);
        Drive.holds(configs.get("message.max.bytes") != null, configs);
    }

    void logDirs(String topic) throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        var directories = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        Drive.same(1, directories.size());
        var directory = directories.values().iterator().next();
        Drive.holds(directory.error() == null, directory.error());
        Drive.holds(directory.totalBytes().isPresent(), "total bytes unknown");
        Drive.holds(directory.usableBytes().isPresent(), "usable bytes unknown");
        for (int partition = 0; partition < Sent.PARTITIONS; partition++) {
            var replica = directory.replicaInfos().get(new TopicPartition(topic, partition));
            Drive.holds(replica != null && replica.size() > Sent.COUNT && !replica.isFuture(), replica);
        }
    }

    void producers(String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 1);
        var active = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        Drive.same(1, active.size());
        var producer = active.get(0);
        Drive.holds(producer.producerId() >= 0 && producer.producerEpoch() == 0, producer);
        Drive.same(Sent.COUNT / Sent.PARTITIONS - 1, producer.lastSequence());
        Drive.holds(producer.currentTransactionStartOffset().isEmpty(), producer);
    }

    void deleteRecords(String topic) throws Exception {
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        long end = Sent.COUNT / Sent.PARTITIONS;
        var deleted = admin.deleteRecords(
                Map.of(zero, RecordsToDelete.beforeOffset(1234), one, RecordsToDelete.beforeOffset(-1)));
        Drive.same(1234L, deleted.lowWatermarks().get(zero).get().lowWatermark());
        Drive.same(end, deleted.lowWatermarks().get(one).get().lowWatermark());
        var earliest = offsets(OffsetSpec.earliest(), zero, one);
        Drive.same(1234L, earliest.get(zero).offset());
        Drive.same(end, earliest.get(one).offset());
        Drive.same(end, offsets(OffsetSpec.latest(), zero).get(zero).offset());
    }

    private static NewTopic newTopic(String topic, Map<String, String> configs) {
        return new NewTopic(topic, Optional.of(Sent.PARTITIONS), Optional.empty()).configs(configs);
    }

    private TopicDescription describe(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private TopicDescription byId(Uuid id) throws Exception {
        return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
    }

    private ConfigEntry config(String topic, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    private void alter(String topic, OpType kind, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(change(topic, kind, name, value)).all().get();
    }

    private static Map<ConfigResource, Collection<AlterConfigOp>> change(
            String topic, OpType kind, String name, String value) {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), kind);
        return Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), List.of(change));
    }
}
