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
	"testing"
)

//go:embed python/requirements.txt
var pythonRequirements []byte

// Python runs a script with the pinned kafka-python, aiokafka and confluent-kafka, whose first
// use in a checkout installs them. script is Python source; args are its sys.argv[1:]. exit is
// the exit status, and err tells that Python or its packages could not be had or run.
func Python(ctx context.Context, script string, args ...string) (stdout, stderr string, exit int, err error) {
	interpreter, err := pythonCache(ctx)
	if err != nil {
		return "", "", -1, err
	}
	return run(exec.CommandContext(ctx, interpreter, append([]string{"-c", script}, args...)...))
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

// RunPython is Python for a test that cannot go on without it: a machine without python3 skips
// loudly (or fails, see RequireKafka), and a script that fails, fails the test. It returns the
// standard output.
func RunPython(tb testing.TB, script string, args ...string) string {
	tb.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		skipLoudly(tb, "PYTHON-CLIENT", err)
	}
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
	if _, err := exec.LookPath("kcat"); err != nil {
		skipLoudly(tb, "KCAT", err)
	}
	stdout, stderr, exit, err := Kcat(tb.Context(), args...)
	if err != nil || exit != 0 {
		tb.Fatalf("kcat: exit %d, %v\nstdout: %s\nstderr: %s", exit, err, stdout, stderr)
	}
	return stdout
}
