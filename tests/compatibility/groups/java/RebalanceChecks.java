// Members that come, leave, stall, are killed and come back, and topics that grow: by both protocols and all
// assignors each partition has one owner afterwards, and each record is read.

import java.util.List;
import java.util.Optional;

final class RebalanceChecks {
    private static final int PARTITIONS = 6;
    private static final int LARGE = 100_000;

    private final Checks checks;
    private final Cluster cluster;

    RebalanceChecks(Checks checks, Cluster cluster) {
        this.checks = checks;
        this.cluster = cluster;
    }

    void all() {
        for (Protocol protocol : Protocol.values()) {
            checks.check("rebalance/join-leave-grow-" + protocol, () -> joinLeaveGrow(protocol));
        }
        for (Protocol protocol : Protocol.BOTH) {
            checks.check("rebalance/large-" + protocol, () -> large(protocol));
            checks.check("rebalance/crash-" + protocol, () -> crash(protocol));
            checks.check("rebalance/stall-" + protocol, () -> stall(protocol));
            checks.check("rebalance/static-" + protocol, () -> staticMember(protocol));
            checks.check("rebalance/pattern-" + protocol, () -> pattern(protocol));
            checks.check("rebalance/deleted-" + protocol, () -> deleted(protocol));
        }
    }

    /** Commits are synchronous and nobody crashes: each record is read exactly once. */
    private void joinLeaveGrow(Protocol protocol) throws Exception {
        String name = "join-leave-" + protocol;
        cluster.create(name, PARTITIONS);
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(2);
            readers.untilShared(PARTITIONS);
            cluster.fill(name, 0, PARTITIONS, 500);
            readers.start(3);
            readers.untilShared(PARTITIONS);
            cluster.fill(name, 0, PARTITIONS, 500);
            readers.leave(readers.members.get(0));
            readers.leave(readers.members.get(0));
            readers.untilShared(PARTITIONS);
            cluster.grow(name, PARTITIONS + 3);
            readers.untilShared(PARTITIONS + 3);
            cluster.fill(name, PARTITIONS, PARTITIONS + 3, 500);
            readers.untilRead(1000L * PARTITIONS + 3 * 500);
            readers.untilCommitted(1000L * PARTITIONS + 3 * 500);
            Checks.same(0L, readers.tally.again(), "records read again");
        }
        Checks.same(1000L * PARTITIONS + 3 * 500, sum(name), "records committed");
    }

    /** A second group of members goes on where the first ended. */
    private void large(Protocol protocol) throws Exception {
        String name = "large-" + protocol;
        cluster.create(name, 4);
        cluster.fill(name, 0, 4, LARGE / 4);
        long first;
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(2);
            readers.untilRead(LARGE / 4);
            readers.close();
            first = readers.tally.records();
            Checks.same(0L, readers.tally.again(), "records read again");
            Checks.same(first, sum(name), "records committed");
        }
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(3);
            readers.untilRead(LARGE - first);
            Checks.same((int) (LARGE - first), readers.tally.records(), "records read by those who came later");
            Checks.same(0L, readers.tally.again(), "records read again");
        }
        Checks.same((long) LARGE, sum(name), "records committed");
    }

    private void crash(Protocol protocol) throws Exception {
        String name = "crash-" + protocol;
        cluster.create(name, PARTITIONS);
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(2);
            readers.untilShared(PARTITIONS);
            Process third = readers.startProgram();
            readers.untilOwned(1, PARTITIONS - 1);
            third.destroyForcibly().waitFor();
            readers.untilShared(PARTITIONS);
            cluster.fill(name, 0, PARTITIONS, 500);
            readers.untilRead(500L * PARTITIONS);
        }
    }

    /** A member that asks for no records for longer than it promised loses its partitions, and gets some again. */
    private void stall(Protocol protocol) throws Exception {
        String name = "stall-" + protocol;
        cluster.create(name, PARTITIONS);
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(2);
            readers.untilShared(PARTITIONS);
            Reader stalled = readers.members.remove(0);
            stalled.stall(true);
            readers.untilShared(PARTITIONS);
            cluster.fill(name, 0, PARTITIONS, 100);
            readers.untilRead(100L * PARTITIONS);
            readers.members.add(stalled);
            stalled.stall(false);
            readers.untilShared(PARTITIONS);
        }
    }

    /** A static member that comes back in time has what it had, and nobody else notices. */
    private void staticMember(Protocol protocol) throws Exception {
        String name = "static-" + protocol;
        cluster.create(name, PARTITIONS);
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            var first = readers.start(protocol, Optional.of("one"));
            var second = readers.start(protocol, Optional.of("two"));
            readers.untilShared(PARTITIONS);
            var had = first.owned();
            var others = second.owned();
            readers.leave(first);
            var again = readers.start(protocol, Optional.of("one"));
            readers.untilShared(PARTITIONS);
            Checks.same(had, again.owned(), "partitions of the static member that came back");
            Checks.same(others, second.owned(), "partitions of the other");
            cluster.fill(name, 0, PARTITIONS, 100);
            readers.untilRead(100L * PARTITIONS);
            Checks.same(0L, readers.tally.again(), "records read again");
        }
    }

    private void pattern(Protocol protocol) throws Exception {
        String name = "pattern-" + protocol;
        cluster.create(name + "-a1", 2);
        cluster.create(name + "-b1", 2);
        try (Readers readers = new Readers(cluster, name, "~" + name + "-[a-c]\\d+", protocol)) {
            readers.start(2);
            readers.untilShared(4);
            cluster.create(name + "-c22", 2);
            cluster.create(name + "-d1", 2);
            readers.untilShared(6);
        }
    }

    /** Of the topics that a pattern stands for, one goes. */
    private void deleted(Protocol protocol) throws Exception {
        String name = "deleted-" + protocol;
        for (String topic : List.of(name + "-a", name + "-b", name + "-c")) {
            cluster.create(topic, 2);
        }
        try (Readers readers = new Readers(cluster, name, "~" + name + "-.", protocol)) {
            readers.start(2);
            readers.untilShared(6);
            cluster.admin.deleteTopics(List.of(name + "-a")).all().get();
            readers.untilShared(4);
        }
    }

    private long sum(String name) throws Exception {
        return cluster.committed(name, name).values().stream().mapToLong(Long::longValue).sum();
    }
}
