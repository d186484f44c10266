// Runs Kafka's command line tools against a broker, each in a program of its own as users do, and keeps what they
// say, without what differs from run to run, for the comparison of two brokers.

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

final class Tool {
    private final Broker broker;
    private final Path outputs;

    Tool(Broker broker, Path outputs) {
        this.broker = broker;
        this.outputs = outputs;
    }

    /** What kafka-consumer-groups says to the arguments. */
    String groups(String step, String... arguments) throws Exception {
        return run(step, "consumer.group.ConsumerGroupCommand", arguments);
    }

    /** What a tool says; it is also kept under the step's name. */
    String run(String step, String tool, String... arguments) throws Exception {
        String said = say(tool, arguments);
        Files.writeString(outputs.resolve(step + ".txt"), steady(said));
        return said;
    }

    /** What a tool says; its figures are its own, and not kept. */
    String say(String tool, String... arguments) throws Exception {
        List<String> command = Broker.concat(Java.command("128m"), "org.apache.kafka.tools." + tool,
            "--bootstrap-server", broker.bootstrap);
        command.addAll(List.of(arguments));
        File said = File.createTempFile("tool", ".txt");
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(said).start();
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new Checks.Wrong(tool + " does not end: " + Files.readString(said.toPath()));
            }
            return Files.readString(said.toPath()).lines().filter(line -> !line.startsWith("SLF4J"))
                .collect(Collectors.joining("\n", "", "\n"));
        } finally {
            said.delete();
        }
    }

    /** Lines in an order, words one space apart, ids and addresses of this run hidden, and no stacks. */
    private String steady(String said) {
        return said.lines()
            .map(line -> line.replace(broker.bootstrap, "BROKER")
                .replaceAll("[0-9A-Za-z_.-]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "MEMBER")
                .replaceAll("(?<![A-Za-z0-9_-])(?![A-Za-z]+Exception)[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])", "MEMBER")
                .replaceAll("\\d{4}-\\d\\d-\\d\\dT[0-9:.]+Z?", "TIME")
                .replaceAll("\\s+", " ").strip())
            .filter(line -> !line.isEmpty() && !line.startsWith("at "))
            .sorted()
            .collect(Collectors.joining("\n", "", "\n"));
    }

    /** The words of the row of a table that begins with these. */
    static List<String> row(String table, String... first) {
        return table.lines().map(line -> Arrays.asList(line.strip().split("\\s+")))
            .filter(words -> words.size() >= first.length && words.subList(0, first.length).equals(List.of(first)))
            .findFirst().orElseThrow(() -> new Checks.Wrong("no row " + String.join(" ", first) + " in: " + table));
    }

    /** A number of a row. */
    static long number(List<String> row, int column) {
        return Long.parseLong(row.get(column));
    }
}
