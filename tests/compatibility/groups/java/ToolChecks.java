// Kafka's command line tools for groups: console consumer, kafka-consumer-groups and the performance test.

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;

final class ToolChecks {
    /** Records of a partition, one each minute, the first of them two hours old. */
    private static final long RECORDS = 60;
    private static final String TOPIC = "tools";
    private static final String OTHER = "tools-other";
    private static final String GROUP = "tools-group";

    private final Checks checks;
    private final Cluster cluster;
    private final Tool tool;
    private final Path scratch;
    private final Instant first = Instant.now().minusSeconds(2 * 3600);

    ToolChecks(Checks checks, Cluster cluster, Tool tool, Path scratch) {
        this.checks = checks;
        this.cluster = cluster;
        this.tool = tool;
        this.scratch = scratch;
    }

    void all() throws Exception {
        cluster.create(TOPIC, 2);
        cluster.create(OTHER, 1);
        cluster.fill(TOPIC, 0, 2, RECORDS, number -> first.plusSeconds(60 * number).toEpochMilli());
        cluster.fill(OTHER, 0, 1, RECORDS, number -> first.plusSeconds(60 * number).toEpochMilli());
        checks.check("tools/console-consumer", this::consoleConsumer);
        checks.check("tools/performance", this::performance);
        checks.check("tools/list", this::list);
        for (Protocol protocol : List.of(Protocol.RANGE, Protocol.UNIFORM)) {
            checks.check("tools/live-" + protocol.group(), () -> live(protocol));
        }
        checks.check("tools/describe", this::describe);
        checks.check("tools/reset", this::reset);
        checks.check("tools/reset-by-time", this::resetByTime);
        checks.check("tools/reset-scope", this::resetScope);
        checks.check("tools/reset-by-file", this::resetByFile);
        checks.check("tools/delete-offsets", this::deleteOffsets);
        checks.check("tools/delete", this::delete);
    }

    private void consoleConsumer() throws Exception {
        String[] consume = {"--topic", TOPIC, "--group", GROUP, "--timeout-ms", "20000", "--max-messages", "50",
            "--command-property", "auto.commit.interval.ms=100"};
        String head = tool.say("consumer.ConsoleConsumer", Broker.concat(List.of(consume), "--from-beginning").toArray(new String[0]));
        Checks.same(50L, head.lines().filter(line -> line.startsWith("value-")).count(), "records read");
        Checks.same(50L, sum(cluster.committed(GROUP, TOPIC)), "records committed");
        consume[7] = "70";
        String tail = tool.say("consumer.ConsoleConsumer", consume);
        var read = new java.util.HashSet<>(head.lines().filter(line -> line.startsWith("value-")).toList());
        long again = tail.lines().filter(read::contains).count();
        Checks.same(0L, again, "records read again");
        Checks.same(70L, tail.lines().filter(line -> line.startsWith("value-")).count(), "records read after that");
        Checks.same(Map.of(0, RECORDS, 1, RECORDS), cluster.committed(GROUP, TOPIC), "offsets committed");
    }

    private void performance() throws Exception {
        String said = tool.say("ConsumerPerformance", "--topic", TOPIC, "--group", "tools-performance",
            "--num-records", Long.toString(2 * RECORDS), "--timeout", "20000");
        Checks.that(said.contains("start.time") && said.contains(", " + 2 * RECORDS + ","), "read all records: " + said);
    }

    private void list() throws Exception {
        Checks.that(tool.groups("list", "--list").lines().anyMatch(GROUP::equals), "the group is listed");
        Tool.row(tool.groups("list-state", "--list", "--state"), GROUP, "Empty");
        Tool.row(tool.groups("list-state-empty", "--list", "--state", "empty"), GROUP, "Empty");
        Checks.that(!tool.groups("list-state-stable", "--list", "--state", "stable").contains(GROUP), "it is not stable");
        Tool.row(tool.groups("list-type", "--list", "--type"), GROUP, "Classic");
        Checks.that(!tool.groups("list-type-consumer", "--list", "--type", "consumer").contains(GROUP), "it is classic");
        tool.groups("list-state-type", "--list", "--state", "--type");
    }

    private void live(Protocol protocol) throws Exception {
        String group = "tools-live-" + protocol.group();
        try (Readers readers = new Readers(cluster, group, TOPIC, protocol)) {
            readers.start(2);
            readers.untilShared(2);
            readers.untilRead(2 * RECORDS);
            readers.untilCommitted(2 * RECORDS);
            String step = "live-" + protocol.group() + "-";
            var row = Tool.row(tool.groups(step + "describe", "--describe", "--group", group), group, TOPIC, "1");
            Checks.same(List.of("60", "60", "0"), row.subList(3, 6), "current offset, log end offset, lag");
            Checks.that(!row.get(6).equals("-"), "a member has the partition");
            tool.groups(step + "offsets-verbose", "--describe", "--offsets", "--verbose", "--group", group);
            var members = tool.groups(step + "members", "--describe", "--members", "--group", group);
            Checks.same(2L, members.lines().filter(line -> line.startsWith(group)).count(), "members");
            var verbose = tool.groups(step + "members-verbose", "--describe", "--members", "--verbose", "--group", group);
            Checks.that(verbose.contains(TOPIC + ":0") || verbose.contains(TOPIC + "(0)"), "its assignment is shown: " + verbose);
            Checks.that(tool.groups(step + "state", "--describe", "--state", "--group", group).contains("Stable"), "stable");
            tool.groups(step + "state-verbose", "--describe", "--state", "--verbose", "--group", group);
            Tool.row(tool.groups(step + "list", "--list", "--state", "stable"), group, "Stable");
            refusals(step, group);
        }
    }

    /** What may not be done to a group that lives. */
    private void refusals(String step, String group) throws Exception {
        var before = cluster.committed(group, TOPIC);
        tool.groups(step + "reset", "--reset-offsets", "--group", group, "--topic", TOPIC, "--to-earliest", "--execute");
        tool.groups(step + "delete", "--delete", "--group", group);
        tool.groups(step + "delete-offsets", "--delete-offsets", "--group", group, "--topic", TOPIC);
        Checks.same(before, cluster.committed(group, TOPIC), "offsets of a live group");
    }

    private void describe() throws Exception {
        var row = Tool.row(tool.groups("describe", "--describe", "--group", GROUP), GROUP, TOPIC, "0");
        Checks.same(List.of("60", "60", "0", "-"), row.subList(3, 7), "current offset, log end offset, lag, member");
        tool.groups("describe-verbose", "--describe", "--offsets", "--verbose", "--group", GROUP);
        tool.groups("describe-members", "--describe", "--members", "--group", GROUP);
        tool.groups("describe-state", "--describe", "--state", "--group", GROUP);
        tool.groups("describe-unknown", "--describe", "--group", "tools-unknown");
        tool.groups("describe-all", "--describe", "--all-groups", "--state");
    }

    private void reset() throws Exception {
        reset("to-earliest", 0, 0, "--to-earliest");
        reset("to-latest", RECORDS, RECORDS, "--to-latest");
        reset("to-offset", 25, 25, "--to-offset", "25");
        reset("shift-back", 15, 15, "--shift-by", "-10");
        reset("shift-on", 20, 20, "--shift-by", "5");
        reset("to-current", 20, 20, "--to-current");
        reset("shift-before-the-first", 0, 0, "--shift-by", "-1000");
        reset("past-the-end", RECORDS, RECORDS, "--to-offset", "1000");
    }

    private void resetByTime() throws Exception {
        Instant between = first.plusSeconds(30 * 60 + 30);
        String datetime = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSS").withZone(ZoneOffset.UTC).format(between);
        reset("to-datetime", 31, 31, "--to-datetime", datetime + "Z");
        reset("to-datetime-after-all", RECORDS, RECORDS, "--to-datetime", "2100-01-01T00:00:00.000Z");
        // The first record was two hours old when the run began: after less than a minute 30 are older than this.
        long ago = java.time.Duration.between(between, Instant.now()).toSeconds();
        reset("by-duration", 31, 31, "--by-duration", "PT" + ago + "S");
        reset("by-duration-of-nothing", RECORDS, RECORDS, "--by-duration", "PT0S");
    }

    private void resetScope() throws Exception {
        cluster.admin.alterConsumerGroupOffsets(GROUP, Map.of(new org.apache.kafka.common.TopicPartition(OTHER, 0),
            new org.apache.kafka.clients.consumer.OffsetAndMetadata(7))).all().get();
        reset("zero", 0, 0, "--to-earliest");
        tool.groups("reset-one-partition", "--reset-offsets", "--group", GROUP, "--topic", TOPIC + ":1", "--to-latest", "--execute");
        Checks.same(Map.of(0, 0L, 1, RECORDS), cluster.committed(GROUP, TOPIC), "one partition reset");
        tool.groups("reset-two-partitions", "--reset-offsets", "--group", GROUP, "--topic", TOPIC + ":0,1", "--to-offset", "9", "--execute");
        Checks.same(Map.of(0, 9L, 1, 9L), cluster.committed(GROUP, TOPIC), "two partitions reset");
        tool.groups("reset-all-topics", "--reset-offsets", "--group", GROUP, "--all-topics", "--to-offset", "3", "--execute");
        Checks.same(Map.of(0, 3L, 1, 3L), cluster.committed(GROUP, TOPIC), "all topics reset");
        Checks.same(Map.of(0, 3L), cluster.committed(GROUP, OTHER), "all topics reset");
        tool.groups("reset-new-group", "--reset-offsets", "--group", "tools-new", "--topic", TOPIC, "--to-offset", "5", "--execute");
        Checks.same(Map.of(0, 5L, 1, 5L), cluster.committed("tools-new", TOPIC), "a group made by a reset");
        tool.groups("reset-unknown-topic", "--reset-offsets", "--group", GROUP, "--topic", "no-such-topic", "--to-earliest", "--execute");
        tool.groups("reset-unknown-partition", "--reset-offsets", "--group", GROUP, "--topic", TOPIC + ":9", "--to-earliest", "--execute");
    }

    private void resetByFile() throws Exception {
        String csv = tool.groups("reset-export", "--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-offset", "12",
            "--dry-run", "--export");
        Checks.that(csv.contains("12"), "the plan is exported: " + csv);
        Checks.same(Map.of(0, 3L, 1, 3L), cluster.committed(GROUP, TOPIC), "offsets after a dry run");
        Path file = scratch.resolve("plan.csv");
        Files.writeString(file, csv.strip() + "\n");
        tool.groups("reset-from-file", "--reset-offsets", "--group", GROUP, "--from-file", file.toString(), "--execute");
        Checks.same(Map.of(0, 12L, 1, 12L), cluster.committed(GROUP, TOPIC), "offsets of the file");
    }

    /** A dry run that changes nothing, then the same done. */
    private void reset(String step, long zero, long one, String... to) throws Exception {
        String[] plan = Broker.concat(List.of("--reset-offsets", "--group", GROUP, "--topic", TOPIC), to).toArray(new String[0]);
        var before = cluster.committed(GROUP, TOPIC);
        var dry = tool.groups("reset-" + step + "-dry", Broker.concat(List.of(plan), "--dry-run").toArray(new String[0]));
        Checks.same(zero, Tool.number(Tool.row(dry, GROUP, TOPIC, "0"), 3), step + ", planned for 0");
        Checks.same(before, cluster.committed(GROUP, TOPIC), step + ", offsets after a dry run");
        tool.groups("reset-" + step, Broker.concat(List.of(plan), "--execute").toArray(new String[0]));
        Checks.same(Map.of(0, zero, 1, one), cluster.committed(GROUP, TOPIC), step);
    }

    private void deleteOffsets() throws Exception {
        tool.groups("delete-offsets-partition", "--delete-offsets", "--group", GROUP, "--topic", TOPIC + ":1");
        Checks.same(java.util.Set.of(0), cluster.committed(GROUP, TOPIC).keySet(), "partitions left");
        tool.groups("delete-offsets-topic", "--delete-offsets", "--group", GROUP, "--topic", TOPIC);
        Checks.same(Map.of(), cluster.committed(GROUP, TOPIC), "offsets left");
        Checks.same(1, cluster.committed(GROUP, OTHER).size(), "offsets of the other topic");
        tool.groups("delete-offsets-unknown-topic", "--delete-offsets", "--group", GROUP, "--topic", "no-such-topic");
        tool.groups("delete-offsets-unknown-group", "--delete-offsets", "--group", "tools-unknown", "--topic", TOPIC);
    }

    private void delete() throws Exception {
        Checks.that(tool.groups("delete", "--delete", "--group", GROUP).contains("successful"), "it is deleted");
        tool.groups("delete-unknown", "--delete", "--group", "tools-unknown");
        Checks.that(tool.groups("list-after-delete", "--list").lines().noneMatch(GROUP::equals), "it is gone");
    }

    private static long sum(Map<Integer, Long> offsets) {
        return offsets.values().stream().mapToLong(Long::longValue).sum();
    }
}
