package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// tieredStorage copies the jar with Kafka's own test implementation of remote storage, which keeps segments in a folder, to
// the cache when needed, and returns where it is.
func tieredStorage(ctx context.Context) (string, error) {
	artifact := "kafka-storage-" + defaultVersion + "-test"
	folder, err := cached(ctx, artifact, func(ctx context.Context, folder string) error {
		arguments := []string{"-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
			"-Dartifact=org.apache.kafka:kafka-storage:" + defaultVersion + ":jar:test", "-DoutputDirectory=" + folder}
		if output, err := exec.CommandContext(ctx, "mvn", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("mvn dependency:copy: %w\n%s", err, output)
		}
		return nil
	})
	return filepath.Join(folder, artifact+".jar"), err
}

// addTiered gives a node remote storage, below the cluster's folder, and has it look all the time at what is to be copied
// there and what has expired.
func (k *Kafka) addTiered(properties map[string]string) {
	for name, value := range map[string]string{
		"remote.log.storage.system.enable":                                 "true",
		"remote.log.storage.manager.class.name":                            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
		"remote.log.storage.manager.class.path":                            k.tieredJar,
		"rsm.config.dir":                                                   filepath.Join(k.dir, "remote"),
		"remote.log.metadata.manager.listener.name":                        "PLAINTEXT",
		"rlmm.config.remote.log.metadata.topic.replication.factor":         properties["offsets.topic.replication.factor"],
		"rlmm.config.remote.log.metadata.topic.num.partitions":             "1",
		"rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "100",
		"remote.log.manager.task.interval.ms":                              "200",
		"log.retention.check.interval.ms":                                  "200",
		"log.initial.task.delay.ms":                                        "200",
	} {
		properties[name] = value
	}
}
