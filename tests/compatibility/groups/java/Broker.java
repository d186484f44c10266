// The broker under test: a corelog or a real Kafka of this machine, which can be ended, killed and started again
// where it was. Knows no group.

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;

final class Broker implements AutoCloseable {
    private static final Duration START_MAX = Duration.ofSeconds(90);

    final String bootstrap;
    private final List<String> command;
    private final Map<String, String> environment;
    private final File log;
    private volatile Process process;

    private Broker(String bootstrap, List<String> command, Map<String, String> environment, File log) {
        this.bootstrap = bootstrap;
        this.command = command;
        this.environment = environment;
        this.log = log;
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (process != null) {
                process.destroyForcibly();
            }
        }));
    }

    static Broker corelog(String program, Path data) throws Exception {
        String address = "127.0.0.1:" + freePort(20_000);
        var command = List.of(program, "serve", "--listen", address, "--shards", "2", "--data",
            data.resolve("corelog").toString());
        var environment = Map.of(
            "CORELOG_GROUPS__INITIAL_REBALANCE_DELAY_MS", "500",
            "CORELOG_GROUPS__CONSUMER_SESSION_TIMEOUT_MS", "6000",
            "CORELOG_GROUPS__CONSUMER_HEARTBEAT_INTERVAL_MS", "500");
        return new Broker(address, command, environment, data.resolve("corelog.log").toFile());
    }

    /** Kafka from the jars that this program runs with. */
    static Broker kafka(Path data) throws Exception {
        int port = freePort(20_000);
        String address = "127.0.0.1:" + port;
        String controller = "127.0.0.1:" + freePort(port + 1);
        Path properties = Files.createDirectories(data).resolve("kafka.properties");
        Files.writeString(properties, """
            process.roles=broker,controller
            node.id=1
            controller.quorum.voters=1@%2$s
            listeners=PLAINTEXT://%1$s,CONTROLLER://%2$s
            advertised.listeners=PLAINTEXT://%1$s
            controller.listener.names=CONTROLLER
            listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
            log.dirs=%3$s
            offsets.topic.replication.factor=1
            offsets.topic.num.partitions=4
            group.initial.rebalance.delay.ms=500
            group.consumer.min.session.timeout.ms=6000
            group.consumer.session.timeout.ms=6000
            group.consumer.min.heartbeat.interval.ms=500
            group.consumer.heartbeat.interval.ms=500
            """.formatted(address, controller, data.resolve("kafka")));
        File log = data.resolve("kafka.log").toFile();
        List<String> java = Java.command("512m");
        Process format = start(concat(java, "kafka.tools.StorageTool", "format", "--cluster-id",
            "corelog-groups-0000000", "--config", properties.toString()), Map.of(), log);
        if (format.waitFor() != 0) {
            throw new IOException("Kafka's storage cannot be formatted: see " + log);
        }
        return new Broker(address, concat(java, "kafka.Kafka", properties.toString()), Map.of(), log);
    }

    /** Starts it and waits until it answers. */
    void start() throws Exception {
        long end = System.nanoTime() + START_MAX.toNanos();
        process = start(command, environment, log);
        try (Admin admin = Admin.create(properties())) {
            while (System.nanoTime() < end) {
                if (!process.isAlive()) {
                    // The kernel may hold the listener of one that was killed for a moment longer.
                    Thread.sleep(200);
                    process = start(command, environment, log);
                }
                try {
                    admin.describeCluster().nodes().get(5, TimeUnit.SECONDS);
                    return;
                } catch (Exception notYet) {
                    Thread.sleep(100);
                }
            }
        }
        throw new IOException("the broker does not answer: see " + log);
    }

    void kill() throws Exception {
        process.destroyForcibly().waitFor();
    }

    void end() throws Exception {
        process.destroy();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            kill();
            throw new IOException("the broker did not end in 60 s");
        }
    }

    Properties properties() {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    @Override
    public void close() throws Exception {
        if (process != null) {
            kill();
        }
    }

    static List<String> concat(List<String> first, String... rest) {
        var all = new java.util.ArrayList<>(first);
        all.addAll(List.of(rest));
        return all;
    }

    private static Process start(List<String> command, Map<String, String> environment, File log) throws IOException {
        var builder = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log));
        builder.environment().putAll(environment);
        return builder.start();
    }

    /** Below the ports from which clients connect: one that looks for a broker which is away must not meet itself. */
    private static int freePort(int from) throws IOException {
        for (int port = from + (int) (ProcessHandle.current().pid() % 1_000); port < 32_000; port++) {
            try (var socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (IOException taken) {
                continue;
            }
        }
        throw new IOException("no port is free");
    }
}
