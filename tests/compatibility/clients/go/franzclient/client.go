// Package franzclient is franz-go, as far as the checks need it.
package franzclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"compatibility/records"
	"compatibility/suite"
)

const (
	requestTimeout = 20 * time.Second
	produceTimeout = 60 * time.Second
	// So small that a topic's records make many requests, enough to have several in flight.
	batchBytesMax = 16 << 10
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type client struct {
	bootstrap string
	kafka     *kgo.Client
	admin     *kadm.Client
}

// Connect returns franz-go with a connection for all but producing and reading, which make their own.
func Connect(bootstrap string) (suite.Client, error) {
	kafka, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	return &client{bootstrap, kafka, kadm.NewClient(kafka)}, nil
}

func (c *client) Close() { c.kafka.Close() }

func (c *client) ErrorCode(err error) int16 {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

func (c *client) Produce(topic string, sending suite.Sending, batch []records.Record) error {
	flight := &flight{}
	options := []kgo.Opt{
		kgo.SeedBrokers(c.bootstrap),
		kgo.WithHooks(flight),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[sending.Codec]),
		kgo.ProducerBatchMaxBytes(batchBytesMax),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !sending.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), produceTimeout)
	defer cancel()
	sent := kgo.AbortingFirstErrPromise(producer)
	for index, record := range batch {
		producer.Produce(ctx, outgoing(topic, index, record), sent.Promise())
	}
	if err := sent.Err(); err != nil {
		return err
	}
	if sending.Idempotent && flight.requestsMax.Load() < 2 {
		return errors.New("never more than one produce request was in flight")
	}
	return nil
}

func outgoing(topic string, index int, record records.Record) *kgo.Record {
	var headers []kgo.RecordHeader
	for _, header := range record.Headers {
		headers = append(headers, kgo.RecordHeader(header))
	}
	return &kgo.Record{
		Topic:     topic,
		Partition: int32(index % records.Partitions),
		Key:       record.Key,
		Value:     record.Value,
		Headers:   headers,
		Timestamp: time.UnixMilli(record.TimestampMs),
	}
}

// flight counts the produce requests that are sent and not yet answered.
type flight struct {
	requests, requestsMax atomic.Int32
}

var produceKey = kmsg.NewPtrProduceRequest().Key()

func (f *flight) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != produceKey || err != nil {
		return
	}
	now := f.requests.Add(1)
	for most := f.requestsMax.Load(); now > most; most = f.requestsMax.Load() {
		f.requestsMax.CompareAndSwap(most, now)
	}
}

func (f *flight) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == produceKey {
		f.requests.Add(-1)
	}
}

func (c *client) Read(topic string, partition int32, offset int64) ([]suite.Fetched, error) {
	end, err := c.Offset(topic, partition, suite.Latest)
	if err != nil {
		return nil, err
	}
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(c.bootstrap),
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var got []suite.Fetched
	for next := offset; next < end; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(got), err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			got = append(got, incoming(record))
			next = record.Offset + 1
		})
	}
	return got, nil
}

func incoming(record *kgo.Record) suite.Fetched {
	var headers []records.Header
	for _, header := range record.Headers {
		headers = append(headers, records.Header(header))
	}
	content := records.Record{
		Key:         record.Key,
		Value:       record.Value,
		Headers:     headers,
		TimestampMs: record.Timestamp.UnixMilli(),
	}
	return suite.Fetched{Record: content, Codec: records.Codecs[record.Attrs.CompressionType()]}
}
