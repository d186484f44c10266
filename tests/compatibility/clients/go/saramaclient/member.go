package saramaclient

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"compatibility/member"
)

const (
	rejoinPause = 200 * time.Millisecond
	// More than a broker's restart takes.
	rejoinTries = 100
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

// Join is a member until the context is done.
func Join(ctx context.Context, settings member.Settings, lines *member.Lines) error {
	strategy := strategies[settings.Assignor]
	if strategy == nil {
		return fmt.Errorf("sarama has no such assignor: %s", settings.Assignor)
	}
	config := config()
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Retry.Backoff = rejoinPause
	config.Consumer.Group.Session.Timeout = member.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = member.HeartbeatInterval
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	config.Consumer.Group.Rebalance.Retry.Max = rejoinTries
	config.Consumer.Group.Rebalance.Retry.Backoff = rejoinPause
	config.Metadata.RefreshFrequency = member.MetadataAge
	group, err := sarama.NewConsumerGroup([]string{settings.Bootstrap}, settings.Group, config)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			member.Problem(err)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{settings.Topic}, &handler{lines}); err != nil {
			member.Problem(err)
			pause(ctx)
		}
	}
	return group.Close()
}

// pause is between two tries, of which the first one may have failed at once.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(rejoinPause):
	}
}

// handler is called for each partition in a goroutine of its own; sarama gives none up before that has returned.
type handler struct {
	lines *member.Lines
}

func (*handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.lines.Gains(claim.Partition())
	defer h.lines.Loses(claim.Partition())
	for {
		select {
		case <-session.Context().Done():
			return nil
		case first, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.process(session, claim, first)
		}
	}
}

// process takes what is there already after the first record. sarama does not say whether a commit succeeded: what
// failed is sent again with the next one, or when the partition is given up.
func (h *handler) process(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, first *sarama.ConsumerMessage) {
	last, count := first, 1
	for more := true; more && count < member.BatchMax; {
		select {
		case next, open := <-claim.Messages():
			if more = open; open {
				last = next
				count++
			}
		default:
			more = false
		}
	}
	h.lines.Processed(claim.Partition(), first.Offset, last.Offset, count)
	session.MarkMessage(last, "")
	session.Commit()
}
