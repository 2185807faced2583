package acceptance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var exactCodecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

// exactLog writes one plan's topic. One goroutine uses it; what it returns as errors fails the plan.
type exactLog struct {
	plan   exactPlan
	topic  string
	seeds  []string
	admin  *kadm.Client
	latest []int64 // largest timestamp of each partition, in ms
	open   *kgo.Client
	serial int
}

func exactConfigs(p exactPlan) map[string]*string {
	configs := map[string]string{
		"cleanup.policy": p.policy, "retention.ms": "-1", "message.timestamp.after.max.ms": fmt.Sprint(math.MaxInt64),
		"message.timestamp.before.max.ms": fmt.Sprint(math.MaxInt64), "segment.index.bytes": "65536",
	}
	if p.appendTime {
		configs["message.timestamp.type"] = "LogAppendTime"
	}
	if p.compacted() {
		maps.Copy(configs, map[string]string{"min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "0", "delete.retention.ms": "86400000", "segment.ms": "50"})
		if p.expire {
			configs["delete.retention.ms"] = "1"
		}
	}
	all := map[string]*string{}
	for key, value := range configs {
		all[key] = &value
	}
	return all
}

func (l *exactLog) create(ctx context.Context) error {
	l.latest = make([]int64, l.plan.partitions)
	if _, err := l.admin.CreateTopic(ctx, int32(l.plan.partitions), 1, exactConfigs(l.plan), l.topic); err != nil {
		return err
	}
	for { // the broker's own metadata follows
		if _, err := l.ends(ctx); err == nil {
			return nil
		} else if exactPause(ctx) != nil {
			return err
		}
	}
}

// produce writes records with a client of its own and returns when they are acknowledged.
func (l *exactLog) produce(ctx context.Context, records []*kgo.Record, opts ...kgo.Opt) error {
	client, err := l.client(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return l.produceWith(ctx, client, records)
}

func (l *exactLog) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(l.seeds...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2 * time.Millisecond)}, opts...)...)
}

func (l *exactLog) produceWith(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	for _, r := range records {
		l.latest[r.Partition] = max(l.latest[r.Partition], r.Timestamp.UnixMilli())
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// records are random ones for one partition or all, with values of up to largest bytes.
func (l *exactLog) records(random *mathrand.Rand, count, largest int) []*kgo.Record {
	partition := int32(-1)
	if random.IntN(2) == 0 {
		partition = random.Int32N(int32(l.plan.partitions))
	}
	clock := l.clock(random)
	all := make([]*kgo.Record, count)
	for i := range all {
		r := &kgo.Record{Topic: l.topic, Partition: partition, Key: l.key(random), Value: exactValue(random, largest), Timestamp: time.UnixMilli(clock())}
		if partition < 0 {
			r.Partition = random.Int32N(int32(l.plan.partitions))
		}
		if random.IntN(3) == 0 {
			for range 1 + random.IntN(4) {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: []string{"", "h", "same"}[random.IntN(3)], Value: exactValue(random, 50)})
			}
		}
		all[i] = r
	}
	return all
}

// clock gives the timestamps of a step, in ms.
func (l *exactLog) clock(random *mathrand.Rand) func() int64 {
	const day = 24 * 3600 * 1000
	now := time.Now().UnixMilli()
	at := []int64{now, now, now - 400*day, now + 5*365*day, 0, -1, 1}[random.IntN(7)]
	switch random.IntN(4) {
	case 0:
		return func() int64 { return at } // all the same
	case 1:
		return func() int64 { return []int64{at, now, 0, -1, now - 400*day}[random.IntN(5)] } // out of order
	default:
		return func() int64 { at += random.Int64N(50); return at }
	}
}

func (l *exactLog) key(random *mathrand.Rand) []byte {
	switch n := random.IntN(10); {
	case n == 0 && !l.plan.compacted():
		return nil
	case n <= 1:
		return []byte{}
	case n == 2:
		return exactBytes(random, 1+random.IntN(60))
	default:
		return fmt.Appendf(nil, "key-%d", random.IntN(12))
	}
}

func exactValue(random *mathrand.Rand, largest int) []byte {
	switch random.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte(strings.Repeat("again ", random.IntN(1+largest/6)))
	default:
		return exactBytes(random, random.IntN(1+min(largest, 300+random.IntN(1+largest))))
	}
}

func exactBytes(random *mathrand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// write does a step that writes.
func (l *exactLog) write(ctx context.Context, s exactStep) error {
	random := s.random()
	codec := kgo.ProducerBatchCompression(exactCodecs[random.IntN(len(exactCodecs))])
	switch s.kind {
	case writePlain:
		return l.produce(ctx, l.records(random, 1+random.IntN(300), 400), codec, kgo.DisableIdempotentWrite())
	case writeIdempotent:
		return l.produce(ctx, l.records(random, 1+random.IntN(300), 400), codec)
	case writeLarge:
		return l.produce(ctx, l.records(random, 1+random.IntN(8), 150_000), codec)
	case writeSmall:
		client, err := l.client(codec, kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		defer client.Close()
		for _, r := range l.records(random, 2+random.IntN(40), 50) {
			if err := l.produceWith(ctx, client, []*kgo.Record{r}); err != nil {
				return err
			}
		}
		return nil
	case writeTxns:
		return l.transactions(ctx, random, codec)
	case openTxn:
		if l.open != nil {
			return nil
		}
		client, err := l.begin(codec)
		if err != nil {
			return err
		}
		l.open = client
		return l.produceWith(ctx, client, l.records(random, 1+random.IntN(20), 200))
	case closeTxn:
		return l.close(ctx, random.IntN(2) == 0)
	}
	return fmt.Errorf("step %s writes nothing", s.kind)
}

// begin is a new producer with a transaction begun.
func (l *exactLog) begin(codec kgo.Opt) (*kgo.Client, error) {
	l.serial++
	client, err := l.client(codec, kgo.TransactionalID(fmt.Sprintf("%s-%d", l.topic, l.serial)), kgo.TransactionTimeout(2*exactPatience))
	if err != nil {
		return nil, err
	}
	return client, client.BeginTransaction()
}

// close ends the transaction that was left open, if there is one.
func (l *exactLog) close(ctx context.Context, commit bool) error {
	if l.open == nil {
		return nil
	}
	defer func() { l.open.Close(); l.open = nil }()
	return l.open.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// transactions are those of two producers that take turns, with a record outside any transaction now and then.
func (l *exactLog) transactions(ctx context.Context, random *mathrand.Rand, codec kgo.Opt) error {
	var producers [2]*kgo.Client
	for i := range producers {
		client, err := l.begin(codec)
		if err != nil {
			return err
		}
		defer client.Close()
		producers[i] = client
	}
	for range 2 + random.IntN(8) {
		client := producers[random.IntN(2)]
		switch random.IntN(5) {
		case 0:
			if err := client.EndTransaction(ctx, kgo.TransactionEndTry(random.IntN(2) == 0)); err != nil {
				return err
			}
			if err := client.BeginTransaction(); err != nil {
				return err
			}
		case 1:
			if err := l.produce(ctx, l.records(random, 1+random.IntN(3), 100), codec, kgo.DisableIdempotentWrite()); err != nil {
				return err
			}
		default:
			if err := l.produceWith(ctx, client, l.records(random, 1+random.IntN(15), 200)); err != nil {
				return err
			}
		}
	}
	for _, client := range producers {
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(random.IntN(2) == 0)); err != nil {
			return err
		}
	}
	return nil
}

// compact has the cleaner run over everything that is there now: what lies in the last segment is out of its reach, so that
// records are added whose timestamps begin new ones.
func (l *exactLog) compact(ctx context.Context, checkpoint string) error {
	if err := l.close(ctx, true); err != nil { // the cleaner does not go beyond an open transaction
		return err
	}
	goals, err := l.ends(ctx)
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		cleaned, err := cleanedOffsets(checkpoint, l.topic)
		if err != nil {
			return err
		}
		var rollers []*kgo.Record
		for partition, goal := range goals {
			if cleaned[partition] >= goal {
				continue
			}
			l.latest[partition] = max(l.latest[partition], time.Now().UnixMilli()) + 1000
			rollers = append(rollers, &kgo.Record{Topic: l.topic, Partition: int32(partition), Key: []byte("roll"), Value: fmt.Append(nil, round),
				Timestamp: time.UnixMilli(l.latest[partition])})
		}
		if len(rollers) == 0 {
			return nil
		}
		if round%10 == 0 { // a segment that begins without a timestamp is ended by the broker's clock
			if err := l.produce(ctx, rollers); err != nil {
				return err
			}
		}
		if err := exactPause(ctx); err != nil {
			return fmt.Errorf("the cleaner has come to %v, want %v: %w", cleaned, goals, err)
		}
	}
}

// cleanedOffsets reads up to where the cleaner has been, from the file in which a broker keeps it.
func cleanedOffsets(checkpoint, topic string) (map[int]int64, error) {
	all := map[int]int64{}
	file, err := os.Open(checkpoint)
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		var partition int
		var offset int64
		if len(fields) == 3 && fields[0] == topic {
			if _, err := fmt.Sscan(fields[1]+" "+fields[2], &partition, &offset); err != nil {
				return nil, err
			}
			all[partition] = offset
		}
	}
	return all, nil
}

// checkpointFile is where the source's broker keeps it.
func checkpointFile(logDir string) string { return filepath.Join(logDir, "cleaner-offset-checkpoint") }

// ends are the log ends of the partitions.
func (l *exactLog) ends(ctx context.Context) ([]int64, error) {
	return l.listed(ctx, l.admin.ListEndOffsets)
}

// stableEnds are the ends of what is in no open transaction.
func (l *exactLog) stableEnds(ctx context.Context) ([]int64, error) {
	return l.listed(ctx, l.admin.ListCommittedOffsets)
}

func (l *exactLog) listed(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) ([]int64, error) {
	listed, err := list(ctx, l.topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	all := make([]int64, l.plan.partitions)
	for partition := range all {
		all[partition] = listed[l.topic][int32(partition)].Offset
	}
	return all, nil
}

// delete deletes the records of one partition before a random offset.
func (l *exactLog) delete(ctx context.Context, random *mathrand.Rand) error {
	partition := random.IntN(l.plan.partitions)
	limits, err := l.ends(ctx)
	if err != nil {
		return err
	}
	at := random.Int64N(limits[partition] + 1)
	if random.IntN(4) == 0 {
		at = limits[partition]
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset(l.topic, int32(partition), at, -1)
	deleted, err := l.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = deleted.Error()
	}
	if errors.Is(err, kerr.OffsetOutOfRange) { // more was deleted before
		return nil
	}
	return err
}

// exactPause is between two looks.
func exactPause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}
