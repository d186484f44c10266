package franzclient

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"compatibility/suite"
)

func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), requestTimeout)
}

func (c *client) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	ctx, cancel := deadline()
	defer cancel()
	values := make(map[string]*string)
	for name, value := range configs {
		values[name] = &value
	}
	_, err := c.admin.CreateTopic(ctx, partitions, 1, values, topic)
	return err
}

func (c *client) DeleteTopic(topic string) error {
	ctx, cancel := deadline()
	defer cancel()
	_, err := c.admin.DeleteTopic(ctx, topic)
	return err
}

func (c *client) GrowTopic(topic string, partitions int32) error {
	ctx, cancel := deadline()
	defer cancel()
	answers, err := c.admin.UpdatePartitions(ctx, int(partitions), topic)
	if err != nil {
		return err
	}
	return answers.Error()
}

func (c *client) Topics() (map[string]int, error) {
	ctx, cancel := deadline()
	defer cancel()
	details, err := c.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	topics := make(map[string]int)
	for name, topic := range details {
		topics[name] = len(topic.Partitions)
	}
	return topics, details.Error()
}

func (c *client) Configs(topic string) (map[string]string, error) {
	ctx, cancel := deadline()
	defer cancel()
	resources, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	resource, err := resources.On(topic, nil)
	if err != nil {
		return nil, err
	}
	configs := make(map[string]string)
	for _, config := range resource.Configs {
		configs[config.Key] = config.MaybeValue()
	}
	return configs, resource.Err
}

func (c *client) AlterConfigs(topic string, alterations []suite.Alteration) error {
	ctx, cancel := deadline()
	defer cancel()
	var changes []kadm.AlterConfig
	for _, alteration := range alterations {
		change := kadm.AlterConfig{Op: kadm.IncrementalOp(alteration.Operation), Name: alteration.Name}
		if alteration.Operation != suite.Delete {
			change.Value = &alteration.Value
		}
		changes = append(changes, change)
	}
	answers, err := c.admin.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return err
	}
	answer, err := answers.On(topic, nil)
	if err != nil {
		return err
	}
	return answer.Err
}

// DescribeCluster asks by the request of that name, where kadm would ask by Metadata.
func (c *client) DescribeCluster() ([]int32, int32, error) {
	ctx, cancel := deadline()
	defer cancel()
	answer, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, c.kafka)
	if err != nil {
		return nil, 0, err
	}
	var brokers []int32
	for _, broker := range answer.Brokers {
		brokers = append(brokers, broker.NodeID)
	}
	return brokers, answer.ControllerID, kerr.ErrorForCode(answer.ErrorCode)
}

func (c *client) PartitionSizes(topic string) (map[int32]int64, error) {
	ctx, cancel := deadline()
	defer cancel()
	brokers, err := c.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	sizes := make(map[int32]int64)
	for _, directories := range brokers {
		if err := directories.Error(); err != nil {
			return nil, err
		}
		directories.EachPartition(func(partition kadm.DescribedLogDirPartition) {
			if partition.Topic == topic {
				sizes[partition.Partition] += partition.Size
			}
		})
	}
	return sizes, nil
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	ctx, cancel := deadline()
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, before, -1)
	answers, err := c.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	answer, found := answers.Lookup(topic, partition)
	if found && answer.Err == nil && answer.LowWatermark != before {
		return fmt.Errorf("the low watermark is %d, not %d", answer.LowWatermark, before)
	}
	return answers.Error()
}

func (c *client) Offset(topic string, partition int32, timestampMs int64) (int64, error) {
	ctx, cancel := deadline()
	defer cancel()
	var offsets kadm.ListedOffsets
	var err error
	switch timestampMs {
	case suite.Earliest:
		offsets, err = c.admin.ListStartOffsets(ctx, topic)
	case suite.Latest:
		offsets, err = c.admin.ListEndOffsets(ctx, topic)
	case suite.MaxTimestamp:
		offsets, err = c.admin.ListMaxTimestampOffsets(ctx, topic)
	default:
		offsets, err = c.admin.ListOffsetsAfterMilli(ctx, timestampMs, topic)
	}
	if err != nil {
		return 0, err
	}
	listed, found := offsets.Lookup(topic, partition)
	if !found {
		return 0, fmt.Errorf("no answer for partition %d", partition)
	}
	// Where no record is young enough, kadm puts the end of the log, which has no timestamp.
	if timestampMs >= 0 && listed.Timestamp == -1 {
		return suite.NoOffset, listed.Err
	}
	return listed.Offset, listed.Err
}
