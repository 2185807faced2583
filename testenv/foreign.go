package testenv

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed python/requirements.txt
var pythonRequirements []byte

//go:embed node/package.json
var nodePackage []byte

// Python runs a script with the pinned kafka-python, aiokafka and confluent-kafka, whose first
// use in a checkout installs them. script is Python source; args are its sys.argv[1:]. exit is
// the exit status, and err tells that Python or its packages could not be had or run.
func Python(ctx context.Context, script string, args ...string) (stdout, stderr string, exit int, err error) {
	command, err := PythonCommand(ctx, append([]string{"-c", script}, args...)...)
	if err != nil {
		return "", "", -1, err
	}
	return run(command)
}

// PythonCommand is the interpreter of Python with these arguments, not started yet.
func PythonCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	interpreter, err := pythonCache(ctx)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, interpreter, args...), nil
}

// NodeCommand is Node.js with the pinned kafkajs on these arguments, not started yet. Its first use in a checkout installs
// kafkajs.
func NodeCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("kafkajs needs node: %w", err)
	}
	digest := sha256.Sum256(nodePackage)
	folder, err := cached(ctx, "node-"+hex.EncodeToString(digest[:6]), func(ctx context.Context, folder string) error {
		if err := os.WriteFile(filepath.Join(folder, "package.json"), nodePackage, 0o644); err != nil {
			return err
		}
		install := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
		if output, err := install.CombinedOutput(); err != nil {
			return fmt.Errorf("npm install: %w\n%s", err, output)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, node, args...)
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(folder, "node_modules"))
	return command, nil
}

// pythonCache is the interpreter of a virtual environment with the pinned packages.
func pythonCache(ctx context.Context) (string, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("python clients need python3: %w", err)
	}
	digest := sha256.Sum256(pythonRequirements)
	folder, err := cached(ctx, "python-"+hex.EncodeToString(digest[:6]), func(ctx context.Context, folder string) error {
		if output, err := exec.CommandContext(ctx, python, "-m", "venv", folder).CombinedOutput(); err != nil {
			return fmt.Errorf("python3 -m venv: %w\n%s", err, output)
		}
		requirements := filepath.Join(folder, "requirements.txt")
		if err := os.WriteFile(requirements, pythonRequirements, 0o644); err != nil {
			return err
		}
		install := exec.CommandContext(ctx, filepath.Join(folder, "bin", "python"), "-m", "pip", "install",
			"--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "-r", requirements)
		if output, err := install.CombinedOutput(); err != nil {
			return fmt.Errorf("pip install: %w\n%s", err, output)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "bin", "python"), nil
}

// Needs skips a test loudly (or fails it, see RequireKafka) on a machine without one of the programs.
func Needs(tb testing.TB, programs ...string) {
	tb.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			skipLoudly(tb, strings.ToUpper(program), err)
		}
	}
}

// RunPython is Python for a test that cannot go on without it: a machine without python3 skips
// loudly (or fails, see RequireKafka), and a script that fails, fails the test. It returns the
// standard output.
func RunPython(tb testing.TB, script string, args ...string) string {
	tb.Helper()
	Needs(tb, "python3")
	stdout, stderr, exit, err := Python(tb.Context(), script, args...)
	if err != nil || exit != 0 {
		tb.Fatalf("python script: exit %d, %v\nstdout: %s\nstderr: %s", exit, err, stdout, stderr)
	}
	return stdout
}

// Kcat runs kcat (librdkafka's command line). err tells that it is not installed or could not be run.
func Kcat(ctx context.Context, args ...string) (stdout, stderr string, exit int, err error) {
	program, err := exec.LookPath("kcat")
	if err != nil {
		return "", "", -1, fmt.Errorf("kcat is missing (Debian package kcat): %w", err)
	}
	return run(exec.CommandContext(ctx, program, args...))
}

// RunKcat is to Kcat what RunPython is to Python.
func RunKcat(tb testing.TB, args ...string) string {
	tb.Helper()
	Needs(tb, "kcat")
	stdout, stderr, exit, err := Kcat(tb.Context(), args...)
	if err != nil || exit != 0 {
		tb.Fatalf("kcat: exit %d, %v\nstdout: %s\nstderr: %s", exit, err, stdout, stderr)
	}
	return stdout
}
