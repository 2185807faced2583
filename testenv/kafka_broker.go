package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is one node of a cluster and its process, if it was started.
type broker struct {
	id         int32
	addr       string
	dir        string
	java       javaCommand
	spawner    *spawner
	clusterID  string
	properties map[string]string
	process    *process
	// logStartBytes is how long the log was when the process started.
	logStartBytes int64
}

func (b *broker) dataDir() string        { return filepath.Join(b.dir, "data") }
func (b *broker) logPath() string        { return filepath.Join(b.dir, "log") }
func (b *broker) propertiesPath() string { return filepath.Join(b.dir, "server.properties") }

// configure writes the configuration.
func (b *broker) configure() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("configure node %d: %w", b.id, err)
	}
	b.properties["log.dirs"] = b.dataDir()
	if err := os.WriteFile(b.propertiesPath(), renderProperties(b.properties), 0o644); err != nil {
		return fmt.Errorf("configure node %d: %w", b.id, err)
	}
	return nil
}

// format writes the configuration and the empty metadata log. Each node is formatted by a JVM
// of its own, which would double the start time; all run at once.
func (b *broker) format(ctx context.Context) error {
	if err := b.configure(); err != nil {
		return err
	}
	tool := exec.CommandContext(ctx, "java", b.java.arguments("kafka.tools.StorageTool",
		"format", "--cluster-id", b.clusterID, "--config", b.propertiesPath())...)
	if output, err := tool.CombinedOutput(); err != nil {
		return fmt.Errorf("format node %d: %w\n%s", b.id, err, output)
	}
	return nil
}

func (b *broker) start() error {
	command := exec.Command("java", b.java.arguments("kafka.Kafka", b.propertiesPath())...)
	command.Dir = b.dir
	b.logStartBytes = 0
	if info, err := os.Stat(b.logPath()); err == nil {
		b.logStartBytes = info.Size()
	}
	process, err := b.spawner.start(command, b.logPath())
	if err != nil {
		return fmt.Errorf("start node %d: %w", b.id, err)
	}
	b.process = process
	return nil
}

// awaitCluster waits until the node's own metadata lists at least count nodes, itself among
// them, and a controller. It fails as soon as the process ends.
func (b *broker) awaitCluster(ctx context.Context, count int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("await node %d: %w", b.id, err)
	}
	defer client.Close()
	for {
		err := b.checkCluster(ctx, client, count)
		if err == nil {
			return nil
		}
		select {
		case <-b.process.exited:
			if b.stillInZooKeeper() {
				if err := b.start(); err != nil {
					return err
				}
				continue
			}
			return fmt.Errorf("await node %d: it ended (%v); end of its log:\n%s", b.id, b.process.waitErr, b.logTail())
		case <-ctx.Done():
			return fmt.Errorf("await node %d: %w; last seen: %w; end of its log:\n%s", b.id, ctx.Err(), err, b.logTail())
		case <-time.After(pollInterval):
		}
	}
}

func (b *broker) checkCluster(ctx context.Context, client *kgo.Client, count int) error {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	response, err := request.RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil {
		return err
	}
	self := false
	for _, other := range response.Brokers {
		self = self || other.NodeID == b.id
	}
	if !self || len(response.Brokers) < count || response.ControllerID < 0 {
		return fmt.Errorf("it lists %d nodes (itself: %t) and controller %d, want %d nodes",
			len(response.Brokers), self, response.ControllerID, count)
	}
	return nil
}

// stillInZooKeeper says that the broker ended because its dead predecessor was in ZooKeeper, where it is until its session
// expires.
func (b *broker) stillInZooKeeper() bool {
	return b.java.version.zooKeeper && strings.Contains(b.logSinceStart(), "NodeExistsException")
}

// logSinceStart is what the newest process of the node logged.
func (b *broker) logSinceStart() string {
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		return ""
	}
	return string(text[min(b.logStartBytes, int64(len(text))):])
}

// logTail is the end of the node's log, short enough for a test failure.
func (b *broker) logTail() string {
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

func (b *broker) stop(ctx context.Context) error {
	if err := b.process.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %d: %w", b.id, err)
	}
	select {
	case <-b.process.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop node %d: %w", b.id, ctx.Err())
	}
}

func (b *broker) suspend() error {
	if err := b.process.signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("suspend node %d: %w", b.id, err)
	}
	return nil
}

func (b *broker) resume() error {
	if err := b.process.signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume node %d: %w", b.id, err)
	}
	return nil
}
