// Package records is what every client sends and expects to read back. It knows no client.
package records

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

const (
	// Count is how many records a topic gets, numbered from 0.
	Count = 10_000
	// Partitions is how many partitions a topic has; a record's is its number modulo Partitions.
	Partitions = 2
	// PerPartition is how many of the records a partition gets.
	PerPartition = Count / Partitions
)

// StartMs is the timestamp of record 0; each later one is a millisecond younger. It lies a minute back, since
// old records are not kept.
var StartMs = time.Now().UnixMilli() - 60_000

// Codecs are Kafka's names for what batches are compressed with.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Header is one header of a record. A nil Value is a null header, an empty one an empty header.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as the user sees it, without its place in the log.
type Record struct {
	Key, Value  []byte
	Headers     []Header
	TimestampMs int64
}

func (r Record) String() string {
	return fmt.Sprintf("{key %q, value %q, headers %q, timestamp %d}", r.Key, r.Value, r.Headers, r.TimestampMs)
}

// Numbered is the record with this number of every topic.
func Numbered(number int) Record {
	return Record{
		Key:   fmt.Appendf(nil, "key-%d", number),
		Value: fmt.Appendf(nil, "value-%d-%s", number, strings.Repeat("x", number%50)),
		Headers: []Header{
			{"number", fmt.Appendf(nil, "%d", number)},
			{"empty", []byte{}},
		},
		TimestampMs: StartMs + int64(number),
	}
}

// All are the records of a topic, in order of their numbers.
func All() []Record {
	all := make([]Record, Count)
	for number := range all {
		all[number] = Numbered(number)
	}
	return all
}

// Expect compares what was read from a partition, from offset `from` to its end, with what was sent.
func Expect(partition int32, from int64, got []Record) error {
	if want := PerPartition - int(from); len(got) != want {
		return fmt.Errorf("partition %d from %d: %d records, not %d", partition, from, len(got), want)
	}
	for index, have := range got {
		offset := int(from) + index
		want := Numbered(offset*Partitions + int(partition))
		if !reflect.DeepEqual(have, want) {
			return fmt.Errorf("partition %d, offset %d: %v is not %v", partition, offset, have, want)
		}
	}
	return nil
}
