// How a further Java program is started: with this one's classes, small, and compiling little.

import java.nio.file.Path;
import java.util.List;

final class Java {
    private Java() {}

    static List<String> command(String memory) {
        return List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx" + memory, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
            System.getProperty("java.class.path"));
    }
}
