package suite

import "compatibility/records"

// Kafka's timestamps for offsets that stand for no time.
const (
	Latest       int64 = -1
	Earliest     int64 = -2
	MaxTimestamp int64 = -3
)

// NoOffset is the answer to a look-up by time that finds no record.
const NoOffset int64 = -1

// Operation is what an alteration does to a config; the numbers are the protocol's.
type Operation int8

const (
	Set Operation = iota
	Delete
	Append
	Subtract
)

// Alteration is one change to a topic's configs. Delete has no Value.
type Alteration struct {
	Operation   Operation
	Name, Value string
}

// Sending is how records are produced, always with acks=all.
type Sending struct {
	Codec      string
	Idempotent bool
}

// Fetched is a record as it was read. Codec is how its batch was compressed, or empty if the client
// does not say.
type Fetched struct {
	records.Record
	Codec string
}

// Client is one client library, as far as the checks need it. A function that the library does not have
// returns errors.ErrUnsupported.
type Client interface {
	CreateTopic(topic string, partitions int32, configs map[string]string) error
	DeleteTopic(topic string) error
	GrowTopic(topic string, partitions int32) error
	// Topics lists all topics, each with its number of partitions.
	Topics() (map[string]int, error)

	Configs(topic string) (map[string]string, error)
	AlterConfigs(topic string, alterations []Alteration) error

	// DescribeCluster returns the ids of the brokers and of the controller.
	DescribeCluster() (brokers []int32, controller int32, err error)
	// PartitionSizes returns the bytes on disk of the topic's partitions, from their log directories.
	PartitionSizes(topic string) (map[int32]int64, error)

	// DeleteRecords deletes the records of a partition that stand before an offset.
	DeleteRecords(topic string, partition int32, before int64) error
	// Offset finds the first offset whose record is at least as young as a timestamp in milliseconds, or
	// what Latest, Earliest and MaxTimestamp stand for.
	Offset(topic string, partition int32, timestampMs int64) (int64, error)

	// Produce sends each record to the partition that is its index modulo records.Partitions, and
	// returns when all are acknowledged or one was refused.
	Produce(topic string, sending Sending, batch []records.Record) error
	// Read reads a partition from an offset to its end, without a group.
	Read(topic string, partition int32, offset int64) ([]Fetched, error)

	// ErrorCode returns Kafka's error code behind an error of this client, 0 if there is none.
	ErrorCode(err error) int16
	Close()
}
