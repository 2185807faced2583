package testenv

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed kafka/pom.xml
var kafkaPom []byte

//go:embed kafka/log4j2.properties
var kafkaLogging []byte

//go:embed kafka/pom-old.xml
var oldKafkaPom []byte

//go:embed kafka/log4j.properties
var oldKafkaLogging []byte

// defaultVersion is the Kafka of clusters whose configuration names none, and of the tools.
const defaultVersion = "4.3.1"

// kafkaVersion is how to get and start one version of Kafka.
type kafkaVersion struct {
	name string
	// old is a Kafka before 4.0, which logs by log4j 1 and knows ZooKeeper.
	old bool
	// zooKeeper says that its clusters keep their metadata in ZooKeeper.
	zooKeeper bool
	scala     string // the Scala version its artifact is named after
}

var kafkaVersions = map[string]kafkaVersion{
	"2.1.1":        {old: true, zooKeeper: true, scala: "2.12"},
	"2.8.2":        {old: true, zooKeeper: true, scala: "2.13"},
	"3.3.2":        {old: true, scala: "2.13"},
	"3.9.1":        {old: true, scala: "2.13"},
	"4.0.0":        {},
	defaultVersion: {},
}

// versionOf is the version of that name; "" is the default one.
func versionOf(name string) (kafkaVersion, error) {
	if name == "" {
		name = defaultVersion
	}
	version, ok := kafkaVersions[name]
	if !ok {
		return kafkaVersion{}, fmt.Errorf("there is no Kafka %s here, but %s", name, strings.Join(slices.Sorted(maps.Keys(kafkaVersions)), ", "))
	}
	version.name = name
	return version, nil
}

// pom and logging are the Maven project with its jars and the configuration of its logging.
func (v kafkaVersion) pom() []byte {
	if v.old {
		return oldKafkaPom
	}
	return kafkaPom
}

func (v kafkaVersion) logging() []byte {
	if v.old {
		return oldKafkaLogging
	}
	return kafkaLogging
}

// loggingFile is the name of the file with logging, and loggingFlag the JVM flag that takes its path.
func (v kafkaVersion) loggingFile() (name, flag string) {
	if v.old {
		return "log4j.properties", "-Dlog4j.configuration=file:"
	}
	return "log4j2.properties", "-Dlog4j2.configurationFile="
}

// mavenProperties choose the version in the project.
func (v kafkaVersion) mavenProperties() []string {
	properties := []string{"-Dkafka.version=" + v.name}
	if v.old {
		properties = append(properties, "-Dscala.version="+v.scala)
	}
	return properties
}

// folder is the name of the version's cache. It tells what is in there, so that what is pinned anew resolves anew.
func (v kafkaVersion) folder() string {
	digest := sha256.Sum256(append(bytes.Clone(v.pom()), v.logging()...))
	name := "kafka-" + hex.EncodeToString(digest[:6])
	if v.name != defaultVersion {
		name += "-" + v.name
	}
	return name
}
