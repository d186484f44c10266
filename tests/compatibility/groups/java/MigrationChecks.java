// A group changes from one protocol to the other member by member, while it reads (KIP-848): no commit is lost and no
// record is missed.

import java.util.Optional;
import org.apache.kafka.common.GroupType;

final class MigrationChecks {
    private static final int PARTITIONS = 6;

    private final Checks checks;
    private final Cluster cluster;

    MigrationChecks(Checks checks, Cluster cluster) {
        this.checks = checks;
        this.cluster = cluster;
    }

    void all() {
        for (Protocol classic : new Protocol[] {Protocol.RANGE, Protocol.COOPERATIVE_STICKY}) {
            checks.check("migration/empty-to-consumer-" + classic, () -> empty(classic, Protocol.UNIFORM));
            checks.check("migration/empty-to-" + classic, () -> empty(Protocol.UNIFORM, classic));
            checks.check("migration/live-to-consumer-" + classic, () -> live(classic, Protocol.UNIFORM));
            checks.check("migration/live-to-" + classic, () -> live(Protocol.UNIFORM, classic));
        }
    }

    private void empty(Protocol from, Protocol to) throws Exception {
        String name = "migration-empty-" + from + "-" + to;
        cluster.create(name, PARTITIONS);
        cluster.fill(name, 0, PARTITIONS, 200);
        try (Readers readers = new Readers(cluster, name, name, from)) {
            readers.start(2);
            readers.untilCommitted(200L * PARTITIONS);
        }
        cluster.fill(name, 0, PARTITIONS, 200);
        try (Readers readers = new Readers(cluster, name, name, to)) {
            readers.start(2);
            readers.untilCommitted(400L * PARTITIONS);
            Checks.same(200 * PARTITIONS, readers.tally.records(), "records read after the change");
        }
    }

    private void live(Protocol from, Protocol to) throws Exception {
        String name = "migration-live-" + from + "-" + to;
        cluster.create(name, PARTITIONS);
        try (Readers readers = new Readers(cluster, name, name, from)) {
            readers.start(2);
            readers.untilShared(PARTITIONS);
            Checks.same(type(from), cluster.describe(name).type(), "type of the group");
            for (int change = 0; change < 2; change++) {
                cluster.fill(name, 0, PARTITIONS, 200);
                readers.start(to, Optional.empty());
                readers.untilShared(PARTITIONS);
                readers.leave(readers.members.get(0));
                readers.untilShared(PARTITIONS);
            }
            Checks.same(type(to), cluster.describe(name).type(), "type of the group");
            cluster.fill(name, 0, PARTITIONS, 200);
            readers.untilCommitted(600L * PARTITIONS);
            Checks.same(0L, readers.tally.again(), "records read again");
        }
        Checks.same(600L * PARTITIONS, cluster.committed(name, name).values().stream().mapToLong(Long::longValue).sum(),
            "records committed");
    }

    private static GroupType type(Protocol protocol) {
        return protocol.isClassic() ? GroupType.CLASSIC : GroupType.CONSUMER;
    }
}
