// Runs named checks and says of each on one line how it ended. A check that is listed as a known gap must fail, and
// is told apart from others: one that passes is a failure, so that the list stays true. Only where the reason begins
// with "sometimes: " it may do either.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

final class Checks {
    interface Body {
        void run() throws Exception;
    }

    private final String broker;
    private final String wanted;
    private final Map<String, String> gaps = new HashMap<>();
    int failed;

    /** Gaps are lines of broker, check and reason with tabs between; of the checks run those whose names begin so. */
    Checks(String broker, Path gaps, String wanted) throws IOException {
        this.broker = broker;
        this.wanted = wanted;
        for (String line : Files.readAllLines(gaps)) {
            String[] parts = line.split("\t", 3);
            if (parts.length == 3 && parts[0].equals(broker)) {
                this.gaps.put(parts[1], parts[2]);
            }
        }
    }

    void check(String name, Body body) {
        if (!name.startsWith(wanted)) {
            return;
        }
        long begun = System.nanoTime();
        Throwable wrong = null;
        try {
            body.run();
        } catch (Throwable thrown) {
            wrong = thrown;
        }
        String gap = gaps.get(name);
        String where = "%-9s %s (%.1f s)".formatted(broker, name, (System.nanoTime() - begun) / 1e9);
        boolean mayPass = gap == null || gap.startsWith("sometimes: ");
        if (wrong == null && mayPass) {
            System.out.println("ok        " + where);
        } else if (wrong != null && gap != null) {
            System.out.println("KNOWN GAP " + where + ": " + gap + "; seen: " + brief(wrong));
        } else {
            failed++;
            System.out.println("FAILED    " + where + ": "
                + (wrong == null ? "it passes, but is listed as a gap" : brief(wrong)));
        }
    }

    /** What went wrong and the line of a check at which it did. */
    private static String brief(Throwable wrong) {
        String at = "";
        for (StackTraceElement frame : wrong.getStackTrace()) {
            if (frame.getClassName().endsWith("Checks") && !frame.getClassName().equals("Checks")) {
                at = " at " + frame.getFileName() + ":" + frame.getLineNumber();
                break;
            }
        }
        return (wrong instanceof Wrong ? "" : wrong.getClass().getSimpleName() + ": ") + wrong.getMessage() + at;
    }

    static void that(boolean true_, String what) {
        if (!true_) {
            throw new Wrong(what);
        }
    }

    static void same(Object wanted, Object found, String what) {
        that(wanted.equals(found), what + ": wanted " + wanted + ", found " + found);
    }

    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1;

        Wrong(String what) {
            super(what);
        }
    }
}
