package acceptance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franzRead reads with franz-go.
func franzRead(ctx context.Context, o readOrder, record func(int64, []byte), stop <-chan struct{}) error {
	opts := []kgo.Opt{kgo.SeedBrokers(o.bootstrap), kgo.ClientID(o.clientID), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if o.isolation == readCommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	switch o.start {
	case startGroup:
		opts = append(opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic))
	case startOffset:
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: {0: kgo.NewOffset().At(o.offset)}}))
	default:
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: {0: kgo.NewOffset().AtStart()}}))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("franz-go: %w", err)
	}
	defer client.Close()
	ctx, cancel := untilStop(ctx, stop)
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { record(r.Offset, r.Value) })
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("franz-go: %w", err)
		}
	}
}

// untilStop is a context that ends with stop, too.
func untilStop(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stop:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

// saramaRead reads with sarama.
func saramaRead(ctx context.Context, o readOrder, record func(int64, []byte), stop <-chan struct{}) error {
	config := sarama.NewConfig()
	config.ClientID = o.clientID
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if o.isolation == readCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	ctx, cancel := untilStop(ctx, stop)
	defer cancel()
	if o.start == startGroup {
		return saramaReadAsGroup(ctx, o, config, record)
	}
	consumer, err := sarama.NewConsumer([]string{o.bootstrap}, config)
	if err != nil {
		return fmt.Errorf("sarama: %w", err)
	}
	defer consumer.Close()
	start := o.offset
	if o.start != startOffset {
		start = sarama.OffsetOldest
	}
	partition, err := consumer.ConsumePartition(o.topic, 0, start)
	if err != nil {
		return fmt.Errorf("sarama: %w", err)
	}
	defer partition.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-partition.Messages():
			record(m.Offset, m.Value)
		case err := <-partition.Errors():
			return fmt.Errorf("sarama: %w", err)
		}
	}
}

func saramaReadAsGroup(ctx context.Context, o readOrder, config *sarama.Config, record func(int64, []byte)) error {
	group, err := sarama.NewConsumerGroup([]string{o.bootstrap}, o.group, config)
	if err != nil {
		return fmt.Errorf("sarama: %w", err)
	}
	defer group.Close()
	consumed := make(chan error, 1)
	go func() { consumed <- group.Consume(ctx, []string{o.topic}, saramaHandler(record)) }()
	select {
	case err = <-consumed:
	case err = <-group.Errors():
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, sarama.ErrClosedConsumerGroup) {
		return nil
	}
	return fmt.Errorf("sarama: %w", err)
}

// saramaHandler takes the records of a member of a group.
type saramaHandler func(offset int64, value []byte)

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h saramaHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		h(m.Offset, m.Value)
		session.MarkMessage(m, "")
	}
	return nil
}

// kcatRead reads with kcat.
func kcatRead(ctx context.Context, o readOrder, record func(int64, []byte), stop <-chan struct{}) error {
	ctx, cancel := untilStop(ctx, stop)
	defer cancel()
	args := []string{"-q", "-u", "-f", `%o %s\n`, "-b", o.bootstrap, "-X", "isolation.level=" + o.isolation, "-X", "client.id=" + o.clientID,
		"-X", "auto.offset.reset=earliest"}
	switch o.start {
	case startGroup:
		args = append(args, "-G", o.group, o.topic)
	case startOffset:
		args = append(args, "-C", "-t", o.topic, "-p", "0", "-o", strconv.FormatInt(o.offset, 10))
	default:
		args = append(args, "-C", "-t", o.topic, "-p", "0", "-o", "beginning")
	}
	command := exec.CommandContext(ctx, "kcat", args...)
	said, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("kcat: %w", err)
	}
	var complaints strings.Builder
	command.Stderr = &complaints
	if err := command.Start(); err != nil {
		return fmt.Errorf("kcat: %w", err)
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		text, value, _ := strings.Cut(lines.Text(), " ")
		offset, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("kcat said %q", lines.Text())
		}
		record(offset, []byte(value))
	}
	if err := command.Wait(); ctx.Err() == nil {
		return fmt.Errorf("kcat ended: %v: %s", err, complaints.String())
	}
	return nil
}
