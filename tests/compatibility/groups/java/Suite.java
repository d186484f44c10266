// The group checks against one broker. Usage: Suite corelog PROGRAM|kafka - GAPS OUTPUTS SCRATCH [CHECK-PREFIX]
// The outputs of Kafka's tools are kept in a folder, to be compared with another broker's.

import java.nio.file.Files;
import java.nio.file.Path;

final class Suite {
    private Suite() {}

    public static void main(String[] arguments) throws Exception {
        Path outputs = Files.createDirectories(Path.of(arguments[3]));
        Path scratch = Files.createDirectories(Path.of(arguments[4]));
        String wanted = arguments.length > 5 ? arguments[5] : "";
        var checks = new Checks(arguments[0], Path.of(arguments[2]), wanted);
        try (Broker broker = arguments[0].equals("kafka") ? Broker.kafka(scratch) : Broker.corelog(arguments[1], scratch)) {
            broker.start();
            try (Cluster cluster = new Cluster(broker)) {
                if ("tools".startsWith(wanted) || wanted.startsWith("tools")) {
                    new ToolChecks(checks, cluster, new Tool(broker, outputs), scratch).all();
                }
                new RebalanceChecks(checks, cluster).all();
                new RestartChecks(checks, cluster).all();
                new MigrationChecks(checks, cluster).all();
            }
        }
        System.exit(checks.failed == 0 ? 0 : 1);
    }
}
