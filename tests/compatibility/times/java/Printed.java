import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsPartitionResponse;
import org.apache.kafka.common.protocol.Errors;

/** Times as they are alike on every broker: from the table's base, or from when which batch was appended. */
record Printed(long base, List<Long> appendTimes) {
    /** Times so near to a batch's are told by it. */
    private static final long NEAR_MS = 1;

    String time(long time) {
        for (int at = 0; at < appendTimes.size(); at++) {
            long after = time - appendTimes.get(at);
            if (Math.abs(after) <= NEAR_MS) {
                return "append " + at + (after == 0 ? "" : after < 0 ? "-1" : "+1");
            }
        }
        // Times are far from 1970, or close to it.
        return time > base / 2 && time < base * 2 ? "T" + (time < base ? "" : "+") + (time - base) : "" + time;
    }

    String answer(ListOffsetsPartitionResponse answer) {
        return Errors.forCode(answer.errorCode()) + " offset " + answer.offset() + ", time " + time(answer.timestamp()) + ", epoch "
                + answer.leaderEpoch();
    }

    static String record(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(' ').append(header.key()).append('=').append(Arrays.toString(header.value()));
        }
        return record.offset() + " " + record.timestampType() + " " + record.timestamp() + " " + new String(record.key()) + " "
                + record.value().length + "/" + Arrays.hashCode(record.value()) + headers;
    }
}
