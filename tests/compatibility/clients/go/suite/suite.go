// Package suite is the checks that every client goes through, and how they are reported. It knows no client.
package suite

import (
	"fmt"
	"strings"

	"compatibility/records"
)

// Kafka's error codes that the checks provoke.
const (
	offsetOutOfRange        int16 = 1
	unknownTopicOrPartition int16 = 3
	messageTooLarge         int16 = 10
	invalidConfig           int16 = 40
)

// Run puts a client through all checks, on topics whose names begin with prefix, and prints a line for each.
func Run(client Client, prefix string) {
	run := checks{client, prefix}
	report("admin", run.admin)
	for _, codec := range records.Codecs {
		report(codec, func() error { return run.roundTrip(codec, Sending{Codec: codec}) })
	}
	report("idempotent", func() error {
		return run.roundTrip("idempotent", Sending{Codec: "lz4", Idempotent: true})
	})
	report("offset", run.offset)
	report("timestamp", run.timestamp)
	report("errors", run.errors)
}

// report runs one check and prints its line for the matrix.
func report(name string, check func() error) {
	if err := check(); err != nil {
		fmt.Printf("CHECK %s FAIL %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("CHECK %s ok\n", name)
}

type checks struct {
	client Client
	prefix string
}

func (c checks) topic(name string) string { return c.prefix + "-" + name }

// roundTrip sends all records to a new topic and reads them back.
func (c checks) roundTrip(name string, sending Sending) error {
	topic := c.topic(name)
	if err := c.client.CreateTopic(topic, records.Partitions, nil); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := c.client.Produce(topic, sending, records.All()); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for partition := range int32(records.Partitions) {
		fetched, err := c.client.Read(topic, partition, 0)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := records.Expect(partition, 0, content(fetched)); err != nil {
			return err
		}
		if err := expectCodec(sending.Codec, fetched); err != nil {
			return err
		}
	}
	return nil
}

func content(fetched []Fetched) []records.Record {
	content := make([]records.Record, len(fetched))
	for index, record := range fetched {
		content[index] = record.Record
	}
	return content
}

// expectCodec fails when no record came in a batch of the codec: a client that does not trust the broker with
// a codec silently sends another. (A small batch may be left as it is, if compression would not shrink it.)
func expectCodec(codec string, fetched []Fetched) error {
	for _, record := range fetched {
		if record.Codec == codec || record.Codec == "" {
			return nil
		}
	}
	return fmt.Errorf("no batch is compressed with %s", codec)
}

// offset reads what roundTrip left with zstd.
func (c checks) offset() error {
	return c.readFrom(c.topic("zstd"), 0, 4000)
}

func (c checks) readFrom(topic string, partition int32, offset int64) error {
	fetched, err := c.client.Read(topic, partition, offset)
	if err != nil {
		return fmt.Errorf("read from %d: %w", offset, err)
	}
	return records.Expect(partition, offset, content(fetched))
}

// timestamp looks up what roundTrip left with gzip, and reads from there.
func (c checks) timestamp() error {
	topic := c.topic("gzip")
	if err := c.expectOffset(topic, 1, records.StartMs+5000, 2500); err != nil {
		return err
	}
	if err := c.expectOffset(topic, 0, records.StartMs+records.Count, NoOffset); err != nil {
		return err
	}
	return c.readFrom(topic, 1, 2500)
}

func (c checks) expectOffset(topic string, partition int32, timestampMs, want int64) error {
	got, err := c.client.Offset(topic, partition, timestampMs)
	if err != nil {
		return fmt.Errorf("offset for time %d: %w", timestampMs, err)
	}
	if got != want {
		return fmt.Errorf("offset for time %d of partition %d: %d, not %d", timestampMs, partition, got, want)
	}
	return nil
}

func (c checks) errors() error {
	bad := map[string]string{"retention.ms": "soon"}
	if err := c.refused(c.client.CreateTopic(c.topic("bad"), 1, bad), invalidConfig); err != nil {
		return fmt.Errorf("a bad config: %w", err)
	}
	if err := c.refused(c.client.DeleteTopic(c.topic("missing")), unknownTopicOrPartition); err != nil {
		return fmt.Errorf("an unknown topic: %w", err)
	}
	small := c.topic("small")
	if err := c.client.CreateTopic(small, 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	large := records.Record{Value: []byte(strings.Repeat("x", 5000)), TimestampMs: records.StartMs}
	err := c.client.Produce(small, Sending{Codec: "none"}, []records.Record{large})
	if err := c.refused(err, messageTooLarge); err != nil {
		return fmt.Errorf("a too large message: %w", err)
	}
	return nil
}

// refused fails unless the client got this error code of Kafka's.
func (c checks) refused(err error, code int16) error {
	if err == nil {
		return fmt.Errorf("accepted, but error %d was expected", code)
	}
	if got := c.client.ErrorCode(err); got != code {
		return fmt.Errorf("error %d, not %d: %w", got, code, err)
	}
	return nil
}
