package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

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
	java, err := kafkaJava(ctx, defaultVersion, 0)
	return java.classpath, err
}

// javaCommand is how to start a main class of one version of Kafka.
type javaCommand struct {
	version   kafkaVersion
	classpath string
	logging   string // the JVM flag that names the configuration of its logging
	archive   string // the JVM flag that uses, or makes, the archive of loaded classes
	heapMiB   int
}

// kafkaJava fills the cache of that version ("" is the default one) when needed.
func kafkaJava(ctx context.Context, versionName string, heapMiB int) (javaCommand, error) {
	version, err := versionOf(versionName)
	if err != nil {
		return javaCommand{}, err
	}
	if err := KafkaAvailable(); err != nil {
		return javaCommand{}, err
	}
	folder, err := cached(ctx, version.folder(), func(ctx context.Context, folder string) error {
		return fillKafkaCache(ctx, folder, version)
	})
	if err != nil {
		return javaCommand{}, err
	}
	return javaIn(folder, version, "-XX:SharedArchiveFile=", heapMiB)
}

func javaIn(folder string, version kafkaVersion, archiveFlag string, heapMiB int) (javaCommand, error) {
	jars, err := filepath.Glob(filepath.Join(folder, "*.jar"))
	if err != nil {
		return javaCommand{}, fmt.Errorf("list jars: %w", err)
	}
	if len(jars) == 0 {
		return javaCommand{}, fmt.Errorf("list jars: none in %s", folder)
	}
	logging, loggingFlag := version.loggingFile()
	return javaCommand{
		version:   version,
		classpath: strings.Join(jars, string(os.PathListSeparator)), // sorted by Glob
		logging:   loggingFlag + filepath.Join(folder, logging),
		archive:   archiveFlag + filepath.Join(folder, "classes.jsa"),
		heapMiB:   heapMiB,
	}, nil
}

// fillKafkaCache fetches the jars, then runs one broker to archive the classes it loads: a
// broker that maps the archive starts in half the time.
func fillKafkaCache(ctx context.Context, folder string, version kafkaVersion) error {
	pom := filepath.Join(folder, "pom.xml")
	if err := os.WriteFile(pom, version.pom(), 0o644); err != nil {
		return err
	}
	logging, _ := version.loggingFile()
	if err := os.WriteFile(filepath.Join(folder, logging), version.logging(), 0o644); err != nil {
		return err
	}
	arguments := append([]string{"-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory=" + folder}, version.mavenProperties()...)
	if output, err := exec.CommandContext(ctx, "mvn", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("mvn dependency:copy-dependencies: %w\n%s", err, output)
	}
	java, err := javaIn(folder, version, "-XX:ArchiveClassesAtExit=", 512)
	if err != nil {
		return err
	}
	trained, err := startKafka(ctx, KafkaConfig{Brokers: 1}, java)
	if err != nil {
		return fmt.Errorf("archive the classes of a broker: %w", err)
	}
	return errors.Join(trained.Stop(ctx, 1), trained.Close())
}

// arguments is the command line after "java". The flags are chosen for a quick start: no
// second compiler, no parallel collector.
func (j javaCommand) arguments(mainClass string, args ...string) []string {
	return append([]string{
		fmt.Sprintf("-Xmx%dm", j.heapMiB),
		"-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1",
		j.archive,
		"-Xlog:disable", "-Xlog:all=error:stderr", // its warnings go to standard output, among what a tool prints
		"-Djava.awt.headless=true",
		j.logging,
		"-cp", j.classpath, mainClass,
	}, args...)
}

// JavaCommand is a Java program with the class path of the pinned Kafka, not started yet: a main
// class, or a single .java file. Its own logging goes at level WARN to standard error.
func JavaCommand(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	java, err := kafkaJava(ctx, defaultVersion, 256)
	if err != nil {
		return nil, err
	}
	quiet := []string{"-Dtestenv.log.level=WARN", "-Dtestenv.log.target=SYSTEM_ERR"}
	return exec.CommandContext(ctx, "java", append(quiet, java.arguments(program, args...)...)...), nil
}

// javaTool runs mainClass to its end. An error means that it could not be run at all; a tool
// that ran and failed is told by exit.
func javaTool(ctx context.Context, mainClass string, args ...string) (stdout, stderr string, exit int, err error) {
	command, err := JavaCommand(ctx, mainClass, args...)
	if err != nil {
		return "", "", -1, err
	}
	return run(command)
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
