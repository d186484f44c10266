// The two group protocols, each with the assignors that the Java client has for it.

import java.util.List;
import java.util.Map;

enum Protocol {
    RANGE("classic", "org.apache.kafka.clients.consumer.RangeAssignor"),
    ROUND_ROBIN("classic", "org.apache.kafka.clients.consumer.RoundRobinAssignor"),
    STICKY("classic", "org.apache.kafka.clients.consumer.StickyAssignor"),
    COOPERATIVE_STICKY("classic", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
    UNIFORM("consumer", "uniform"),
    CONSUMER_RANGE("consumer", "range");

    static final List<Protocol> BOTH = List.of(COOPERATIVE_STICKY, UNIFORM);

    private final String group;
    private final String assignor;

    Protocol(String group, String assignor) {
        this.group = group;
        this.assignor = assignor;
    }

    /** The client's group.protocol. */
    String group() {
        return group;
    }

    boolean isClassic() {
        return group.equals("classic");
    }

    /** What a member needs for it; in the new protocol the broker has the timeouts. */
    Map<String, String> properties() {
        return isClassic()
            ? Map.of("group.protocol", group, "partition.assignment.strategy", assignor,
                "session.timeout.ms", "6000", "heartbeat.interval.ms", "500")
            : Map.of("group.protocol", group, "group.remote.assignor", assignor);
    }

    @Override
    public String toString() {
        return name().toLowerCase(java.util.Locale.ROOT).replace('_', '-');
    }
}
