import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The Java client against a broker. Usage: Drive HOST:PORT TOPIC-PREFIX */
public final class Drive {
    interface Work {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        String prefix = arguments[1];
        try (AdminChecks admin = new AdminChecks(bootstrap, prefix)) {
            RecordChecks records = new RecordChecks(admin, bootstrap, prefix);
            check("admin", admin::topics);
            for (String codec : Sent.CODECS) {
                check(codec, () -> records.roundTrip(codec, codec, false));
            }
            check("idempotent", () -> records.roundTrip("idempotent", "lz4", true));
            check("offset", records::offset);
            check("timestamp", records::timestamp);
            check("errors", () -> {
                admin.errors();
                records.errors();
            });
            check("validate-only", admin::validateOnly);
            check("topic-ids", admin::topicIds);
            check("alter-configs", admin::alterConfigs);
            check("cluster", admin::cluster);
            check("log-dirs", () -> admin.logDirs(prefix + "-none"));
            check("producers", () -> admin.producers(prefix + "-idempotent"));
            check("delete-records", () -> admin.deleteRecords(prefix + "-snappy"));
        }
    }

    /** Runs one check and prints its line for the matrix; the suite goes on with the other checks. */
    private static void check(String name, Work work) {
        try {
            work.run();
            System.out.println("CHECK " + name + " ok");
        } catch (Exception | AssertionError problem) {
            problem.printStackTrace(System.out);
            System.out.println("CHECK " + name + " FAIL " + problem);
        }
    }

    /** Does it again until it no longer fails, for 5 s: Kafka answers a change before every broker shows it. */
    static void soon(Work work) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
        while (true) {
            try {
                work.run();
                return;
            } catch (Exception | AssertionError problem) {
                if (System.nanoTime() > deadline) {
                    throw problem;
                }
                Thread.sleep(20);
            }
        }
    }

    /** Fails with both values unless they are equal. */
    static void same(Object wanted, Object got) {
        if (!wanted.equals(got)) {
            throw new AssertionError("wanted " + wanted + ", got " + got);
        }
    }

    /** Fails unless it holds, saying what was looked at. */
    static void holds(boolean condition, Object shown) {
        if (!condition) {
            throw new AssertionError("unexpected: " + shown);
        }
    }

    /** Fails unless the work fails with this kind of error, bare or as a future's cause. */
    static void fails(Class<? extends Exception> wanted, Work work) throws Exception {
        try {
            work.run();
        } catch (Exception failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            if (wanted.isInstance(failure) || wanted.isInstance(cause)) {
                return;
            }
            throw failure;
        }
        throw new AssertionError(wanted.getSimpleName() + " was expected");
    }

    /** The settings that each client has besides its own. */
    static Map<String, Object> settings(String bootstrap) {
        return Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", 20_000);
    }

    private Drive() {}
}
