package testenv

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// startTimeout bounds the start of a cluster for callers whose context has no deadline. A start
// takes seconds; the rest is for a machine busy with other tests.
const startTimeout = 2 * time.Minute

// KafkaConfig describes a cluster of real brokers. The zero value is one broker.
type KafkaConfig struct {
	// Version is Kafka's; empty means 4.3.1. The others are 2.1.1, 2.8.2, 3.3.2, 3.9.1 and 4.0.0.
	Version string
	// Brokers is the number of nodes, each a broker and a KRaft controller; 0 means 1.
	// Their ids are 1 to Brokers. Clusters before 3.3 have a ZooKeeper of their own instead of
	// controllers, which runs until Close.
	Brokers int
	// Users makes one broker check rights. Beside its open listener, where every client is ANONYMOUS, it has one where users
	// log in by SASL PLAIN with their names as passwords. The first user is a super user; the others, and ANONYMOUS, may do
	// everything with what no ACL is about.
	Users []string
	// Tiered gives the brokers, of the default version, tiered storage for the topics that ask for it (remote.storage.enable).
	Tiered bool
	// Properties are set on every node and win over what this package sets.
	Properties map[string]string
	// Dir holds logs, data and configuration. Empty means a temporary directory, which Close
	// removes; a given one is left alone.
	Dir string
	// JVMHeapMiB is the largest heap of one node; 0 means 512.
	JVMHeapMiB int
}

// Kafka is a running cluster. Its methods may be called from several goroutines, but not two
// at once for the same node.
type Kafka struct {
	config    KafkaConfig
	clusterID string
	zooKeeper *zooKeeper // nil without
	tieredJar string
	dir       string
	ports     *PortBlock
	spawner   *spawner
	brokers   []*broker // node id 1 first
}

// StartKafka starts a cluster and returns when every node answers and knows of all the others.
func StartKafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	if config.Brokers == 0 {
		config.Brokers = 1
	}
	if config.JVMHeapMiB == 0 {
		config.JVMHeapMiB = 512
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	java, err := kafkaJava(ctx, config.Version, config.JVMHeapMiB)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	return startKafka(ctx, config, java)
}

func startKafka(ctx context.Context, config KafkaConfig, java javaCommand) (*Kafka, error) {
	dir := config.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "testenv-kafka-"); err != nil {
			return nil, fmt.Errorf("start kafka: %w", err)
		}
	}
	count := 2 * config.Brokers
	if len(config.Users) > 0 {
		if config.Brokers > 1 {
			return nil, errors.New("start kafka: only a single broker can have users")
		}
		count++
	}
	ports, err := ReservePorts(count)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	k := &Kafka{config: config, clusterID: newClusterID(), dir: dir, ports: ports, spawner: newSpawner()}
	if config.Tiered {
		if k.tieredJar, err = tieredStorage(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("start kafka: %w", err), k.Close())
		}
	}
	if java.version.zooKeeper {
		k.zooKeeper = &zooKeeper{addr: ports.Addr(config.Brokers), dir: filepath.Join(dir, "zookeeper"), java: java, spawner: k.spawner}
	}
	for id := int32(1); id <= int32(config.Brokers); id++ {
		k.brokers = append(k.brokers, &broker{
			id:         id,
			addr:       ports.Addr(int(id) - 1),
			dir:        filepath.Join(dir, fmt.Sprintf("node-%d", id)),
			java:       java,
			spawner:    k.spawner,
			clusterID:  k.clusterID,
			properties: k.properties(id),
		})
	}
	if err := k.startAll(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start kafka (logs kept in %s): %w", dir, err), k.closeKeepingDir())
	}
	return k, nil
}

func (k *Kafka) startAll(ctx context.Context) error {
	if k.zooKeeper != nil {
		return k.startOnZooKeeper(ctx)
	}
	formatting, formatContext := errgroup.WithContext(ctx)
	for _, b := range k.brokers {
		formatting.Go(func() error { return b.format(formatContext) })
	}
	if err := formatting.Wait(); err != nil {
		return err
	}
	return k.run(ctx)
}

// run starts the nodes that do not run and waits for the whole cluster.
func (k *Kafka) run(ctx context.Context) error {
	for _, b := range k.brokers {
		if b.process != nil && b.process.alive() {
			continue
		}
		if err := b.start(); err != nil {
			return err
		}
	}
	waiting, ctx := errgroup.WithContext(ctx)
	for _, b := range k.brokers {
		waiting.Go(func() error { return b.awaitCluster(ctx, len(k.brokers)) })
	}
	return waiting.Wait()
}

// newClusterID is a random id in Kafka's form (base64url of 16 bytes). The first byte is kept
// below 0xf8 because a leading "-" would look like an option on the command line.
func newClusterID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// ClusterID is the id of the cluster as its brokers report it.
func (k *Kafka) ClusterID() string { return k.clusterID }

// Bootstrap lists the "host:port" of every node.
func (k *Kafka) Bootstrap() []string {
	var addresses []string
	for _, b := range k.brokers {
		addresses = append(addresses, b.addr)
	}
	return addresses
}

// SASLBootstrap is the "host:port" where Users log in.
func (k *Kafka) SASLBootstrap() []string { return []string{k.ports.Addr(saslPort)} }

// NodeIDs lists the node ids, lowest first.
func (k *Kafka) NodeIDs() []int32 {
	var ids []int32
	for _, b := range k.brokers {
		ids = append(ids, b.id)
	}
	return ids
}

// BrokerAddr is the "host:port" of a node. An unknown id is a mistake in the test and panics,
// here and below.
func (k *Kafka) BrokerAddr(id int32) string { return k.broker(id).addr }

// LogDir is where a node keeps its partitions (log.dirs).
func (k *Kafka) LogDir(id int32) string { return k.broker(id).dataDir() }

// Dir holds everything of the cluster; node-<id>/log is the log of a node.
func (k *Kafka) Dir() string { return k.dir }

// PID is the process id of a node, also when it has ended.
func (k *Kafka) PID(id int32) int { return k.broker(id).process.pid() }

// Kill ends a node with SIGKILL and waits until it is gone.
func (k *Kafka) Kill(id int32) error { return k.broker(id).process.kill() }

// Stop ends a node with SIGTERM (a controlled shutdown) and waits until it is gone.
func (k *Kafka) Stop(ctx context.Context, id int32) error { return k.broker(id).stop(ctx) }

// Suspend freezes a node with SIGSTOP: its connections stay open and nobody answers.
func (k *Kafka) Suspend(id int32) error { return k.broker(id).suspend() }

// Resume lets a suspended node go on.
func (k *Kafka) Resume(id int32) error { return k.broker(id).resume() }

// Restart starts a node that has ended, on its old ports and data, and returns when it is in
// service. It needs a majority of the nodes, itself included, to run; see RestartAll.
func (k *Kafka) Restart(ctx context.Context, id int32) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	b := k.broker(id)
	if b.process.alive() {
		return fmt.Errorf("restart node %d: it still runs", id)
	}
	if err := b.start(); err != nil {
		return err
	}
	return b.awaitCluster(ctx, 1)
}

// RestartAll starts every node that has ended, and returns when all nodes know of each other.
func (k *Kafka) RestartAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return k.run(ctx)
}

// Tool runs a Java tool of Kafka, such as org.apache.kafka.tools.TopicCommand, with the class
// path of the brokers. exit is the exit status; -1 with the reason in stderr when it could not
// be run.
func (k *Kafka) Tool(ctx context.Context, mainClass string, args ...string) (stdout, stderr string, exit int) {
	stdout, stderr, exit, err := javaTool(ctx, mainClass, args...)
	if err != nil {
		stderr += err.Error()
	}
	return stdout, stderr, exit
}

// Close kills the nodes and, unless the caller named the directory, removes everything.
func (k *Kafka) Close() error {
	err := k.closeKeepingDir()
	if k.config.Dir == "" {
		err = errors.Join(err, os.RemoveAll(k.dir))
	}
	return err
}

func (k *Kafka) closeKeepingDir() error {
	var errs []error
	for _, b := range k.brokers {
		if b.process != nil {
			errs = append(errs, b.process.kill())
		}
	}
	if k.zooKeeper != nil {
		errs = append(errs, k.zooKeeper.close())
	}
	k.spawner.close()
	errs = append(errs, k.ports.Close())
	return errors.Join(errs...)
}

func (k *Kafka) broker(id int32) *broker {
	i := slices.IndexFunc(k.brokers, func(b *broker) bool { return b.id == id })
	if i < 0 {
		panic(fmt.Sprintf("testenv: no node %d in a cluster of %d", id, len(k.brokers)))
	}
	return k.brokers[i]
}
