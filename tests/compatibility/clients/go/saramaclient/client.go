// Package saramaclient is sarama, as far as the checks need it.
package saramaclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"compatibility/records"
	"compatibility/suite"
)

const (
	readTimeout = 20 * time.Second
	// So small that a topic's records make many requests.
	requestBytes = 16 << 10
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

type client struct {
	bootstrap []string
	admin     sarama.ClusterAdmin
}

// Connect returns sarama with a connection for all but producing and reading, which make their own.
func Connect(bootstrap string) (suite.Client, error) {
	addresses := []string{bootstrap}
	admin, err := sarama.NewClusterAdmin(addresses, config())
	if err != nil {
		return nil, err
	}
	return &client{addresses, admin}, nil
}

// config lets sarama use every version it knows; by itself it would speak as to a broker of 2021.
func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	return config
}

func (c *client) Close() { _ = c.admin.Close() }

func (c *client) ErrorCode(err error) int16 {
	var refused sarama.KError
	if errors.As(err, &refused) {
		return int16(refused)
	}
	return 0
}

// Produce keeps five requests in flight, except when idempotent: there sarama insists on one.
func (c *client) Produce(topic string, sending suite.Sending, batch []records.Record) error {
	config := config()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Compression = codecs[sending.Codec]
	config.Producer.Flush.Bytes = requestBytes
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Idempotent = sending.Idempotent
	config.Net.MaxOpenRequests = 5
	if sending.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(batch))
	for index, record := range batch {
		messages[index] = outgoing(topic, index, record)
	}
	err = producer.SendMessages(messages)
	var refused sarama.ProducerErrors
	if errors.As(err, &refused) {
		err = refused[0]
	}
	return errors.Join(err, producer.Close())
}

func outgoing(topic string, index int, record records.Record) *sarama.ProducerMessage {
	var headers []sarama.RecordHeader
	for _, header := range record.Headers {
		headers = append(headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
	}
	return &sarama.ProducerMessage{
		Topic:     topic,
		Partition: int32(index % records.Partitions),
		Key:       sarama.ByteEncoder(record.Key),
		Value:     sarama.ByteEncoder(record.Value),
		Headers:   headers,
		Timestamp: time.UnixMilli(record.TimestampMs),
	}
}

func (c *client) Read(topic string, partition int32, offset int64) ([]suite.Fetched, error) {
	end, err := c.Offset(topic, partition, suite.Latest)
	if err != nil {
		return nil, err
	}
	config := config()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(c.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, offset)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	late := time.After(readTimeout)
	var got []suite.Fetched
	for next := offset; next < end; {
		select {
		case message := <-reader.Messages():
			got = append(got, incoming(message))
			next = message.Offset + 1
		case err := <-reader.Errors():
			return nil, err
		case <-late:
			return nil, fmt.Errorf("nothing more after %d records", len(got))
		}
	}
	return got, nil
}

// incoming does not say the codec, since sarama does not.
func incoming(message *sarama.ConsumerMessage) suite.Fetched {
	var headers []records.Header
	for _, header := range message.Headers {
		headers = append(headers, records.Header{Key: string(header.Key), Value: header.Value})
	}
	return suite.Fetched{Record: records.Record{
		Key:         message.Key,
		Value:       message.Value,
		Headers:     headers,
		TimestampMs: message.Timestamp.UnixMilli(),
	}}
}
