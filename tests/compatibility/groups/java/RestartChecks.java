// The broker ends, cleanly and killed, while members read and commit: they come back, and no commit is lost.

final class RestartChecks {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 3_000;

    private final Checks checks;
    private final Cluster cluster;

    RestartChecks(Checks checks, Cluster cluster) {
        this.checks = checks;
        this.cluster = cluster;
    }

    void all() {
        for (Protocol protocol : Protocol.BOTH) {
            checks.check("restart/clean-" + protocol, () -> restart("clean-" + protocol, protocol, cluster.broker::end));
            checks.check("restart/kill-" + protocol, () -> restart("kill-" + protocol, protocol, cluster.broker::kill));
        }
    }

    private void restart(String name, Protocol protocol, Checks.Body end) throws Exception {
        cluster.create(name, PARTITIONS);
        cluster.fill(name, 0, PARTITIONS, RECORDS);
        try (Readers readers = new Readers(cluster, name, name, protocol)) {
            readers.start(3);
            readers.untilRead(PARTITIONS * RECORDS / 4);
            end.run();
            var promised = readers.tally.acknowledged(name);
            cluster.broker.start();
            var found = cluster.committed(name, name);
            promised.forEach((partition, offset) ->
                Checks.that(found.getOrDefault(partition, 0L) >= offset, "lost: " + promised + " became " + found));
            cluster.fill(name, 0, PARTITIONS, RECORDS);
            readers.untilRead(2L * PARTITIONS * RECORDS);
            readers.untilShared(PARTITIONS);
            readers.untilCommitted(2L * PARTITIONS * RECORDS);
        }
    }
}
