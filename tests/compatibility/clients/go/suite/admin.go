package suite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"compatibility/records"
)

// A broker answers a description from its copy of the metadata, which follows a change a moment later.
const descriptionLag = 5 * time.Second

// soon repeats a description until it shows the change that was just acknowledged.
func soon(described func() error) error {
	deadline := time.Now().Add(descriptionLag)
	for {
		err := described()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// admin takes one topic from its creation to its deletion, through everything that an administrator asks.
func (c checks) admin() error {
	topic := c.topic("admin")
	if err := c.client.CreateTopic(topic, records.Partitions, map[string]string{"retention.ms": "1000"}); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	steps := []struct {
		name string
		run  func(topic string) error
	}{
		{"configs", c.configs},
		{"grow", c.grow},
		{"cluster", c.cluster},
		{"offsets", c.offsets},
		{"log directories", c.logDirectories},
		{"delete records", c.deleteRecords},
		{"delete", c.deleteTopic},
	}
	for _, step := range steps {
		if err := step.run(topic); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// configs uses each operation of an incremental alteration once; none touches what it does not name.
func (c checks) configs(topic string) error {
	created := map[string]string{"retention.ms": "1000", "segment.ms": "604800000", "cleanup.policy": "delete"}
	if err := soon(func() error { return c.expectConfigs(topic, created) }); err != nil {
		return fmt.Errorf("as created: %w", err)
	}
	stages := []struct {
		alterations []Alteration
		want        map[string]string
	}{
		{
			[]Alteration{{Set, "segment.ms", "5000"}, {Append, "cleanup.policy", "compact"}},
			map[string]string{"retention.ms": "1000", "segment.ms": "5000", "cleanup.policy": "delete,compact"},
		},
		{
			[]Alteration{{Delete, "segment.ms", ""}, {Subtract, "cleanup.policy", "compact"}},
			map[string]string{"retention.ms": "1000", "segment.ms": "604800000", "cleanup.policy": "delete"},
		},
		{
			[]Alteration{{Set, "retention.ms", "-1"}},
			map[string]string{"retention.ms": "-1", "segment.ms": "604800000", "cleanup.policy": "delete"},
		},
	}
	for _, stage := range stages {
		if err := c.client.AlterConfigs(topic, stage.alterations); err != nil {
			return fmt.Errorf("alter %v: %w", stage.alterations, err)
		}
		if err := soon(func() error { return c.expectConfigs(topic, stage.want) }); err != nil {
			return fmt.Errorf("after %v: %w", stage.alterations, err)
		}
	}
	return nil
}

func (c checks) expectConfigs(topic string, want map[string]string) error {
	got, err := c.client.Configs(topic)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	for name, value := range want {
		if got[name] != value {
			return fmt.Errorf("%s is %q, not %q", name, got[name], value)
		}
	}
	return nil
}

func (c checks) grow(topic string) error {
	if err := c.client.GrowTopic(topic, records.Partitions+1); err != nil {
		return err
	}
	return soon(func() error { return c.expectPartitions(topic, records.Partitions+1) })
}

// expectPartitions wants a topic listed with so many partitions; without any it must not be listed.
func (c checks) expectPartitions(topic string, want int) error {
	topics, err := c.client.Topics()
	if err != nil {
		return err
	}
	if got := topics[topic]; got != want {
		return fmt.Errorf("it is listed with %d partitions, not %d", got, want)
	}
	return nil
}

func (c checks) cluster(string) error {
	brokers, controller, err := c.client.DescribeCluster()
	if err != nil {
		return err
	}
	if !slices.Contains(brokers, controller) {
		return fmt.Errorf("the controller %d is none of the brokers %v", controller, brokers)
	}
	return nil
}

func (c checks) offsets(topic string) error {
	if err := c.client.Produce(topic, Sending{Codec: "none"}, records.All()); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for partition := range int32(records.Partitions) {
		if err := c.expectOffset(topic, partition, Earliest, 0); err != nil {
			return err
		}
		if err := c.expectOffset(topic, partition, Latest, records.PerPartition); err != nil {
			return err
		}
		err := c.expectOffset(topic, partition, MaxTimestamp, records.PerPartition-1)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

func (c checks) logDirectories(topic string) error {
	sizes, err := c.client.PartitionSizes(topic)
	if err != nil {
		return err
	}
	if len(sizes) != records.Partitions+1 {
		return fmt.Errorf("sizes of %d partitions, not %d: %v", len(sizes), records.Partitions+1, sizes)
	}
	for partition, size := range sizes {
		if written := partition < records.Partitions; written != (size > 0) {
			return fmt.Errorf("partition %d has %d bytes", partition, size)
		}
	}
	return nil
}

func (c checks) deleteRecords(topic string) error {
	if err := c.client.DeleteRecords(topic, 0, 1000); err != nil {
		return err
	}
	if err := c.expectOffset(topic, 0, Earliest, 1000); err != nil {
		return err
	}
	if err := c.readFrom(topic, 0, 1000); err != nil {
		return err
	}
	_, err := c.client.Read(topic, 0, 999)
	if err := c.refused(err, offsetOutOfRange); err != nil {
		return fmt.Errorf("a deleted record: %w", err)
	}
	return nil
}

func (c checks) deleteTopic(topic string) error {
	if err := c.client.DeleteTopic(topic); err != nil {
		return err
	}
	return soon(func() error { return c.expectPartitions(topic, 0) })
}
