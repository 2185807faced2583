package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// zooKeeper is the one ZooKeeper server of a cluster of old brokers.
type zooKeeper struct {
	addr    string
	dir     string
	java    javaCommand
	spawner *spawner
	process *process
}

// start does not wait: brokers do, by trying.
func (z *zooKeeper) start() error {
	if err := os.MkdirAll(z.dir, 0o755); err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	host, port, err := net.SplitHostPort(z.addr)
	if err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	configuration := filepath.Join(z.dir, "zookeeper.properties")
	properties := renderProperties(map[string]string{
		"clientPortAddress": host, "clientPort": port, "dataDir": filepath.Join(z.dir, "data"), "tickTime": "500",
		"maxSessionTimeout": "60000", "maxClientCnxns": "0", "admin.enableServer": "false",
	})
	if err := os.WriteFile(configuration, properties, 0o644); err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	command := exec.Command("java", z.java.arguments("org.apache.zookeeper.server.ZooKeeperServerMain", configuration)...)
	command.Dir = z.dir
	if z.process, err = z.spawner.start(command, filepath.Join(z.dir, "log")); err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	return nil
}

func (z *zooKeeper) close() error {
	if z.process == nil {
		return nil
	}
	return z.process.kill()
}

// startOnZooKeeper starts ZooKeeper and the brokers, which have no metadata log to format and make up the cluster's id.
func (k *Kafka) startOnZooKeeper(ctx context.Context) error {
	if err := k.zooKeeper.start(); err != nil {
		return err
	}
	for _, b := range k.brokers {
		if err := b.configure(); err != nil {
			return err
		}
	}
	if err := k.run(ctx); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...))
	if err != nil {
		return fmt.Errorf("learn the id of the cluster: %w", err)
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("learn the id of the cluster: %w", err)
	}
	if response.ClusterID == nil {
		return fmt.Errorf("learn the id of the cluster: %s does not tell", k.brokers[0].addr)
	}
	k.clusterID = *response.ClusterID
	return nil
}
