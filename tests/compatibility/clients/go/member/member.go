// Package member is what the members of a group have in common, of whichever client: what they are told, what they ask
// for, and what they say. README.md beside the clients' folders says what the lines mean.
package member

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// SessionTimeout is that of the classic protocol; by the new one, the broker has it.
	SessionTimeout = 6 * time.Second
	// HeartbeatInterval is that of the classic protocol, too.
	HeartbeatInterval = 500 * time.Millisecond
	// MetadataAge is after how long a member looks for new partitions.
	MetadataAge = time.Second
	// BatchMax is how many records a member processes before it commits them.
	BatchMax = 200
)

// Settings is what a member is told.
type Settings struct {
	Bootstrap, Topic, Group, Protocol, Assignor string
}

// Lines prints what a member does. Several goroutines may use it.
type Lines struct {
	mutex sync.Mutex
	owned []int32
}

// Gains says that these partitions are the member's, too.
func (l *Lines) Gains(partitions ...int32) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.owned = append(l.owned, partitions...)
	l.assigned()
}

// Loses says that these partitions are not the member's any more.
func (l *Lines) Loses(partitions ...int32) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.owned = slices.DeleteFunc(l.owned, func(it int32) bool { return slices.Contains(partitions, it) })
	l.assigned()
}

func (l *Lines) assigned() {
	slices.Sort(l.owned)
	l.owned = slices.Compact(l.owned)
	words := make([]string, len(l.owned))
	for at, partition := range l.owned {
		words[at] = fmt.Sprint(partition)
	}
	fmt.Println("assigned", strings.Join(words, ","))
}

// Processed says that these records were.
func (l *Lines) Processed(partition int32, first, last int64, count int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fmt.Println("records", partition, first, last, count)
}

// Committed says that the broker has acknowledged next as committed.
func (l *Lines) Committed(partition int32, next int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fmt.Println("committed", partition, next)
}

// Problem is for the log alone: what was not committed is only processed again.
func Problem(err error) { fmt.Fprintln(os.Stderr, err) }
