package franzclient

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"compatibility/member"
)

const commitTimeout = 20 * time.Second

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
	// By the new protocol, franz-go asks for the broker's uniform assignor where its own would be sticky.
	"uniform": kgo.StickyBalancer,
}

// Join is a member until the context is done. No partition is given up between a poll and its commit.
func Join(ctx context.Context, settings member.Settings, lines *member.Lines) error {
	balancer := balancers[settings.Assignor]
	if balancer == nil {
		return fmt.Errorf("franz-go has no such assignor: %s", settings.Assignor)
	}
	gains := func(_ context.Context, _ *kgo.Client, of map[string][]int32) { lines.Gains(of[settings.Topic]...) }
	loses := func(_ context.Context, _ *kgo.Client, of map[string][]int32) { lines.Loses(of[settings.Topic]...) }
	options := []kgo.Opt{
		kgo.SeedBrokers(settings.Bootstrap),
		kgo.ConsumerGroup(settings.Group),
		kgo.ConsumeTopics(settings.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(member.SessionTimeout),
		kgo.HeartbeatInterval(member.HeartbeatInterval),
		kgo.MetadataMaxAge(member.MetadataAge),
		kgo.MetadataMinAge(member.MetadataAge / 4),
		kgo.OnPartitionsAssigned(gains),
		kgo.OnPartitionsRevoked(loses),
		kgo.OnPartitionsLost(loses),
	}
	if settings.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		process(client, client.PollRecords(ctx, member.BatchMax), lines)
		client.AllowRebalance()
	}
	return nil
}

func process(client *kgo.Client, fetches kgo.Fetches, lines *member.Lines) {
	fetches.EachError(func(topic string, partition int32, err error) {
		member.Problem(fmt.Errorf("partition %d of %s: %w", partition, topic, err))
	})
	records := fetches.Records()
	if len(records) == 0 {
		return
	}
	next := map[int32]int64{}
	fetches.EachPartition(func(of kgo.FetchTopicPartition) {
		if count := len(of.Records); count > 0 {
			last := of.Records[count-1].Offset
			lines.Processed(of.Partition, of.Records[0].Offset, last, count)
			next[of.Partition] = last + 1
		}
	})
	// Not the member's context: what it has processed is committed although it is to end.
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := client.CommitRecords(ctx, records...); err != nil {
		member.Problem(fmt.Errorf("not committed: %w", err))
		return
	}
	for partition, offset := range next {
		lines.Committed(partition, offset)
	}
}
