package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/cli"
	"kafka-mirror-proxy/cmd/version"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/testenv"
)

const (
	replicationPartitions = 12
	// replicationBatchBytes is the size of the source's batches: the hard end of "64 KiB and up".
	replicationBatchBytes = 64 << 10
	// fillRate times the length asked for is how much there is to mirror, in bytes a second:
	// somewhat above MirrorMaker's rate, so that a slower mirror runs longer.
	fillRate = 150e6
	// stallTimeout is how long a mirror may make no progress.
	stallTimeout = time.Minute
)

// fill writes the records that are to be mirrored to the source.
func fill(ctx context.Context, source *testenv.Kafka, l load, length time.Duration) (int64, error) {
	direct := directFront(source)
	if err := createTopic(ctx, direct, l); err != nil {
		return 0, err
	}
	want := int64(fillRate * length.Seconds() / float64(l.recordBytes))
	return produce(ctx, direct, l, func(records int64) bool { return records >= want })
}

// measureReplication mirrors a filled topic with the tool a user would take, and measures from
// the first sight of progress, when all is set up, until the destination's log ends where the
// source's does.
func measureReplication(ctx context.Context, b *bench, proxy *front, source *testenv.Kafka, l load) (measurement, error) {
	sourceClient, err := directFront(source).client()
	if err != nil {
		return measurement{}, err
	}
	defer sourceClient.Close()
	want, err := logEnd(ctx, sourceClient, l.topic)
	if err != nil {
		return measurement{}, err
	}
	destinationClient, err := directFront(b.destination).client()
	if err != nil {
		return measurement{}, err
	}
	defer destinationClient.Close()

	mirror := "bench-" + l.topic
	tool := mirrorsTool{proxy: proxy.bootstrap, mirrorConfig: "bootstrap.servers=" + source.BrokerAddr(1) + "\n"}
	if _, err := tool.run(ctx, "--create", "--mirror", mirror, "--mirror-config", mirrorConfigName); err != nil {
		return measurement{}, err
	}
	if _, err := tool.run(ctx, "--add", "--mirror", mirror, "--topic", l.topic); err != nil {
		return measurement{}, err
	}
	first, err := awaitProgress(ctx, destinationClient, proxy.process, l.topic, 0)
	if err != nil {
		return measurement{}, tool.explain(ctx, mirror, err)
	}
	watch, err := startStopwatch(proxy.process)
	if err != nil {
		return measurement{}, err
	}
	for at := first; at < want; {
		if at, err = awaitProgress(ctx, destinationClient, proxy.process, l.topic, at); err != nil {
			return measurement{}, tool.explain(ctx, mirror, err)
		}
	}
	if first >= want {
		return measurement{}, fmt.Errorf("mirror %s: all %d records came before the first look: nothing to measure", l.topic, want)
	}
	return watch.stop(want-first, l.recordBytes)
}

// awaitProgress returns the log end of the mirrored topic once it is above the last one seen.
func awaitProgress(ctx context.Context, client *kgo.Client, proxy *child, topic string, last int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	var end int64
	err := proxy.await(ctx, func() (err error) {
		if end, err = logEnd(ctx, client, topic); err == nil && end <= last {
			err = fmt.Errorf("mirror %s: no progress beyond %d records", topic, last)
		}
		return err
	})
	return end, err
}

// logEnd is the sum of the log end offsets of all partitions; 0 while there is no such topic.
func logEnd(ctx context.Context, client *kgo.Client, topic string) (int64, error) {
	offsets, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = offsets.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("log end of %s: %w", topic, err)
	}
	sum := int64(0)
	offsets.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}

// mirrorsTool runs the kafka-mirrors tool within this process.
type mirrorsTool struct {
	proxy        string
	mirrorConfig string // the text of the properties file with the source's configs
}

// mirrorConfigName names the tool's only file, which is in memory.
const mirrorConfigName = "source.properties"

func (t mirrorsTool) run(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	exit := cli.Run(ctx, append([]string{"--bootstrap-server", t.proxy}, args...), cli.Env{
		Out: &out, Err: &errs, Version: version.String(),
		ReadFile: func(name string) ([]byte, error) {
			if name != mirrorConfigName {
				return nil, fs.ErrNotExist
			}
			return []byte(t.mirrorConfig), nil
		},
		ClientOptions: func(configs map[string]string) ([]kgo.Opt, error) {
			opts, _, err := connect.Options(configs, func(v string) (string, error) { return v, nil })
			return opts, err
		},
	})
	if exit != 0 {
		return "", fmt.Errorf("kafka-mirrors %v: exit code %d\n%s%s", args, exit, &out, &errs)
	}
	return out.String(), nil
}

// explain adds what the tool says about the mirror to an error.
func (t mirrorsTool) explain(ctx context.Context, mirror string, err error) error {
	table, describeErr := t.run(ctx, "--describe", "--mirror", mirror)
	if describeErr != nil {
		return errors.Join(err, describeErr)
	}
	return fmt.Errorf("%w\n%s", err, table)
}
