import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchRequestData.FetchPartition;
import org.apache.kafka.common.message.FetchRequestData.FetchTopic;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.ListOffsetsResponseData.ListOffsetsPartitionResponse;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceDataCollection;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.RequestUtils;

/** One connection on which requests go out as they are given: no client corrects timestamps or leaves queries out. */
final class Wire implements AutoCloseable {
    static final short LIST_OFFSETS_OLDEST = 1;
    static final short LIST_OFFSETS_NEWEST = 11;
    /** The newest version that names topics. */
    private static final short PRODUCE = 12;
    private static final short FETCH = 12;
    private static final int FETCH_BYTES = 8 << 20;
    private static final int WAIT_MS = 30_000;
    private static final Set<Errors> LEADERLESS = Set.of(Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION);

    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;
    private int correlation;

    Wire(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(WAIT_MS);
        in = new DataInputStream(socket.getInputStream());
        out = new DataOutputStream(socket.getOutputStream());
    }

    PartitionProduceResponse produce(String topic, MemoryRecords records) throws IOException {
        TopicProduceDataCollection topics = new TopicProduceDataCollection();
        PartitionProduceData partition = new PartitionProduceData().setIndex(0).setRecords(records);
        topics.add(new TopicProduceData().setName(topic).setPartitionData(List.of(partition)));
        ProduceRequestData request = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(WAIT_MS).setTopicData(topics);
        ProduceResponseData answer = new ProduceResponseData(call(ApiKeys.PRODUCE, PRODUCE, request), PRODUCE);
        return answer.responses().iterator().next().partitionResponses().get(0);
    }

    /** Waits for the leader of a topic that is just made. */
    PartitionProduceResponse produceToNew(String topic, MemoryRecords records) throws IOException, InterruptedException {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (true) {
            PartitionProduceResponse answer = produce(topic, records);
            if (!LEADERLESS.contains(Errors.forCode(answer.errorCode())) || System.currentTimeMillis() > deadline) {
                return answer;
            }
            Thread.sleep(20);
        }
    }

    /** What there is from an offset on, as the broker keeps it. */
    MemoryRecords fetch(String topic, long offset) throws IOException {
        FetchPartition partition = new FetchPartition().setPartition(0).setFetchOffset(offset).setPartitionMaxBytes(FETCH_BYTES);
        FetchRequestData request = new FetchRequestData().setReplicaId(-1).setMaxBytes(FETCH_BYTES).setSessionEpoch(-1)
                .setTopics(List.of(new FetchTopic().setTopic(topic).setPartitions(List.of(partition))));
        FetchResponseData answer = new FetchResponseData(call(ApiKeys.FETCH, FETCH, request), FETCH);
        return (MemoryRecords) answer.responses().get(0).partitions().get(0).records();
    }

    /** What a consumer asks: with no leader epoch. */
    ListOffsetsPartitionResponse offset(String topic, long time, byte isolation, short version) throws IOException {
        return offsets(topic, List.of(new ListOffsetsPartition().setTimestamp(time)), isolation, version).get(0);
    }

    List<ListOffsetsPartitionResponse> offsets(String topic, List<ListOffsetsPartition> partitions, byte isolation,
            short version) throws IOException {
        ListOffsetsRequestData request = new ListOffsetsRequestData().setReplicaId(-1).setIsolationLevel(isolation)
                .setTopics(List.of(new ListOffsetsTopic().setName(topic).setPartitions(partitions)));
        var answer = new ListOffsetsResponseData(call(ApiKeys.LIST_OFFSETS, version, request), version);
        return answer.topics().get(0).partitions();
    }

    private ByteBufferAccessor call(ApiKeys api, short version, ApiMessage body) throws IOException {
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion(version)
                .setCorrelationId(++correlation).setClientId("times");
        ByteBuffer request = RequestUtils.serialize(header, api.requestHeaderVersion(version), body, version);
        out.writeInt(request.remaining());
        out.write(request.array(), request.arrayOffset() + request.position(), request.remaining());
        out.flush();
        byte[] frame = new byte[in.readInt()];
        in.readFully(frame);
        ByteBufferAccessor answer = new ByteBufferAccessor(ByteBuffer.wrap(frame));
        int answered = new ResponseHeaderData(answer, api.responseHeaderVersion(version)).correlationId();
        if (answered != correlation) {
            throw new IOException("the answer to " + correlation + " says " + answered);
        }
        return answer;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
