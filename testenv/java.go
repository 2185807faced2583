package testenv

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

//go:embed kafka/pom.xml
var kafkaPom []byte

//go:embed kafka/log4j2.properties
var kafkaLogging []byte

// KafkaAvailable says why real brokers cannot be started here, or nil.
func KafkaAvailable() error {
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("real Kafka needs %s: %w", program, err)
		}
	}
	return nil
}

// JavaClasspath is the class path of the pinned Kafka server and tools. The first call in a
// fresh checkout has Maven copy the jars (54 MB); later ones, also of other processes, only
// list a folder.
func JavaClasspath(ctx context.Context) (string, error) {
	folder, err := kafkaCache(ctx)
	if err != nil {
		return "", err
	}
	jars, err := filepath.Glob(filepath.Join(folder, "*.jar"))
	if err != nil {
		return "", fmt.Errorf("list jars: %w", err)
	}
	if len(jars) == 0 {
		return "", fmt.Errorf("list jars: none in %s", folder)
	}
	sort.Strings(jars)
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

// kafkaCache is the folder with the jars and log4j2.properties, named after their content so
// that another pinned version resolves anew.
func kafkaCache(ctx context.Context) (string, error) {
	if err := KafkaAvailable(); err != nil {
		return "", err
	}
	digest := sha256.Sum256(append(bytes.Clone(kafkaPom), kafkaLogging...))
	return cached(ctx, "kafka-"+hex.EncodeToString(digest[:6]), func(ctx context.Context, folder string) error {
		pom := filepath.Join(folder, "pom.xml")
		if err := os.WriteFile(pom, kafkaPom, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "log4j2.properties"), kafkaLogging, 0o644); err != nil {
			return err
		}
		maven := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+folder)
		if output, err := maven.CombinedOutput(); err != nil {
			return fmt.Errorf("mvn dependency:copy-dependencies: %w\n%s", err, output)
		}
		return nil
	})
}

// javaCommand is how to start a main class of the pinned Kafka.
type javaCommand struct {
	classpath string
	logging   string // path of log4j2.properties
	heapMiB   int
}

func kafkaJava(ctx context.Context, heapMiB int) (javaCommand, error) {
	classpath, err := JavaClasspath(ctx)
	if err != nil {
		return javaCommand{}, err
	}
	folder, err := kafkaCache(ctx)
	if err != nil {
		return javaCommand{}, err
	}
	return javaCommand{classpath: classpath, logging: filepath.Join(folder, "log4j2.properties"), heapMiB: heapMiB}, nil
}

// arguments is the command line after "java". The flags are chosen for a quick start: no
// second compiler, no parallel collector.
func (j javaCommand) arguments(mainClass string, args ...string) []string {
	return append([]string{
		fmt.Sprintf("-Xmx%dm", j.heapMiB),
		"-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1",
		"-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + j.logging,
		"-cp", j.classpath, mainClass,
	}, args...)
}

// javaTool runs mainClass to its end, its own logging at level WARN on standard error. An error means that it
// could not be run at all; a tool that ran and failed is told by exit.
func javaTool(ctx context.Context, mainClass string, args ...string) (stdout, stderr string, exit int, err error) {
	java, err := kafkaJava(ctx, 256)
	if err != nil {
		return "", "", -1, err
	}
	quiet := []string{"-Dtestenv.log.level=WARN", "-Dtestenv.log.target=SYSTEM_ERR"}
	return run(exec.CommandContext(ctx, "java", append(quiet, java.arguments(mainClass, args...)...)...))
}

// run runs command to its end with its outputs kept apart.
func run(command *exec.Cmd) (stdout, stderr string, exit int, err error) {
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	err = command.Run()
	var exitErr *exec.ExitError
	if errors.As(err, &exitErr) {
		err = nil
	}
	if err != nil {
		return out.String(), errOut.String(), -1, fmt.Errorf("run %s: %w", command.Path, err)
	}
	return out.String(), errOut.String(), command.ProcessState.ExitCode(), nil
}
