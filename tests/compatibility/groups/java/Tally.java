// What all members of a group have read together, and which of their commits were acknowledged.

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

final class Tally {
    private final Map<String, Integer> seen = new ConcurrentHashMap<>();
    private final Map<String, Long> acknowledged = new ConcurrentHashMap<>();

    void read(String topic, int partition, long offset) {
        seen.merge(topic + " " + partition + " " + offset, 1, Integer::sum);
    }

    void committed(String topic, int partition, long offset) {
        acknowledged.merge(topic + " " + partition, offset, Math::max);
    }

    /** Records that were read at least once. */
    int records() {
        return seen.size();
    }

    /** Records that were read more than once. */
    long again() {
        return seen.values().stream().filter(times -> times > 1).count();
    }

    long acknowledged() {
        return acknowledged.values().stream().mapToLong(Long::longValue).sum();
    }

    /** The offsets that were acknowledged, by partition, of one topic. */
    Map<Integer, Long> acknowledged(String topic) {
        var found = new TreeMap<Integer, Long>();
        acknowledged.forEach((at, offset) -> {
            String[] parts = at.split(" ");
            if (parts[0].equals(topic)) {
                found.put(Integer.parseInt(parts[1]), offset);
            }
        });
        return found;
    }
}
