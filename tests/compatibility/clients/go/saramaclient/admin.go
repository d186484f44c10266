package saramaclient

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"compatibility/suite"
)

func (c *client) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	detail := &sarama.TopicDetail{
		NumPartitions:     partitions,
		ReplicationFactor: 1,
		ConfigEntries:     make(map[string]*string),
	}
	for name, value := range configs {
		detail.ConfigEntries[name] = &value
	}
	return c.admin.CreateTopic(topic, detail, false)
}

func (c *client) DeleteTopic(topic string) error { return c.admin.DeleteTopic(topic) }

func (c *client) GrowTopic(topic string, partitions int32) error {
	return c.admin.CreatePartitions(topic, partitions, nil, false)
}

func (c *client) Topics() (map[string]int, error) {
	listed, err := c.admin.ListTopics()
	topics := make(map[string]int)
	for name, detail := range listed {
		topics[name] = int(detail.NumPartitions)
	}
	return topics, err
}

func (c *client) Configs(topic string) (map[string]string, error) {
	resource := &sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}
	options := sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true}
	results, err := c.admin.DescribeConfigs([]*sarama.ConfigResource{resource}, options)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || results[0].ErrorCode != sarama.ErrNoError {
		return nil, fmt.Errorf("refused: %v", results)
	}
	configs := make(map[string]string)
	for _, config := range results[0].Configs {
		configs[config.Name] = config.Value
	}
	return configs, nil
}

func (c *client) AlterConfigs(topic string, alterations []suite.Alteration) error {
	entries := make(map[string]sarama.IncrementalAlterConfigsEntry)
	for _, alteration := range alterations {
		entry := sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperation(alteration.Operation),
		}
		if alteration.Operation != suite.Delete {
			entry.Value = &alteration.Value
		}
		entries[alteration.Name] = entry
	}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
}

func (c *client) DescribeCluster() ([]int32, int32, error) {
	nodes, controller, err := c.admin.DescribeCluster()
	var brokers []int32
	for _, node := range nodes {
		brokers = append(brokers, node.ID())
	}
	return brokers, controller, err
}

func (c *client) PartitionSizes(topic string) (map[int32]int64, error) {
	brokers, _, err := c.DescribeCluster()
	if err != nil {
		return nil, err
	}
	answers, err := c.admin.DescribeLogDirs(brokers)
	if err != nil {
		return nil, err
	}
	sizes := make(map[int32]int64)
	for _, directories := range answers {
		for _, directory := range directories {
			addSizes(sizes, directory, topic)
		}
	}
	return sizes, nil
}

func addSizes(sizes map[int32]int64, directory sarama.DescribeLogDirsResponseDirMetadata, topic string) {
	for _, described := range directory.Topics {
		if described.Topic != topic {
			continue
		}
		for _, partition := range described.Partitions {
			sizes[partition.PartitionID] += partition.Size
		}
	}
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{partition: before})
}

func (c *client) Offset(topic string, partition int32, timestampMs int64) (int64, error) {
	// It came with ListOffsets 7; sarama ends at 6.
	if timestampMs == suite.MaxTimestamp {
		return 0, errors.ErrUnsupported
	}
	answers, err := c.admin.ListOffsets(map[string]map[int32]int64{topic: {partition: timestampMs}}, nil)
	if err != nil {
		return 0, err
	}
	answer := answers[topic][partition]
	if answer == nil {
		return 0, fmt.Errorf("no answer for partition %d", partition)
	}
	if answer.Err != sarama.ErrNoError {
		return 0, answer.Err
	}
	return answer.Offset, nil
}
