// The members of one group, and what to wait for of them.

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;

final class Readers implements AutoCloseable {
    private static final long WAIT_MS = 60_000;

    final Tally tally = new Tally();
    final List<Reader> members = new ArrayList<>();
    private final List<Process> programs = new ArrayList<>();
    private final Cluster cluster;
    private final String group;
    private final String topic;
    private final Protocol protocol;

    Readers(Cluster cluster, String group, String topic, Protocol protocol) {
        this.cluster = cluster;
        this.group = group;
        this.topic = topic;
        this.protocol = protocol;
    }

    void start(int count) {
        for (int member = 0; member < count; member++) {
            start(protocol, Optional.empty());
        }
    }

    Reader start(Protocol by, Optional<String> instance) {
        var member = new Reader(cluster.broker.bootstrap, group, topic, by, instance, tally);
        members.add(member);
        member.start();
        return member;
    }

    /** A member in a program of its own, which can be killed. */
    Process startProgram() throws Exception {
        var program = new ProcessBuilder(Broker.concat(Java.command("128m"), "Reader", cluster.broker.bootstrap, group,
            topic, protocol.name())).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        programs.add(program);
        return program;
    }

    void leave(Reader member) throws InterruptedException {
        members.remove(member);
        member.leave();
    }

    /** Each partition has one owner, and each member has some. */
    void untilShared(int partitions) throws Exception {
        until(() -> {
            var all = new HashSet<TopicPartition>();
            int sum = 0;
            boolean each = true;
            for (Reader member : members) {
                var owned = member.owned();
                all.addAll(owned);
                sum += owned.size();
                each &= !owned.isEmpty();
            }
            return each && sum == partitions && all.size() == partitions;
        }, () -> partitions + " partitions shared out; owned: " + members.stream().map(Reader::owned).toList());
    }

    /** These members have so many partitions together, the rest is somebody else's. */
    void untilOwned(int least, int most) throws Exception {
        Supplier<Integer> owned = () -> members.stream().mapToInt(member -> member.owned().size()).sum();
        until(() -> owned.get() >= least && owned.get() <= most, () -> "own " + least + " to " + most + ", but own " + owned.get());
    }

    void untilRead(long records) throws Exception {
        until(() -> tally.records() >= records, () -> "read " + records + ", but read " + tally.records());
    }

    void untilCommitted(long records) throws Exception {
        until(() -> tally.acknowledged() >= records, () -> "commit " + records + ", but " + tally.acknowledged());
    }

    void until(BooleanSupplier reached, Supplier<String> what) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!reached.getAsBoolean()) {
            members.forEach(Reader::owned);
            Checks.that(System.currentTimeMillis() < end, "not in " + WAIT_MS / 1000 + " s: " + what.get());
            Thread.sleep(20);
        }
    }

    @Override
    public void close() throws Exception {
        for (Process program : programs) {
            program.destroyForcibly().waitFor();
        }
        for (Reader member : List.copyOf(members)) {
            leave(member);
        }
    }
}
