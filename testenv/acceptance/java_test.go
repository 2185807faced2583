package acceptance

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kafka-mirror-proxy/testenv"
)

// javaTools is one JVM that runs Kafka's tools one after the other.
type javaTools struct {
	t     *testing.T
	calls io.Writer
	// answers of java/Clients.java, which has the format
	answers io.Reader
	stderr  func() string
	// close ends the JVM.
	close func()
}

// startJavaTools starts the JVM; it ends with the test.
func startJavaTools(t *testing.T) *javaTools {
	t.Helper()
	command, err := testenv.JavaCommand(t.Context(), filepath.Join("java", "Clients.java"))
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "java.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close() // the process has its own copy
	command.Stderr = stderr
	calls, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		calls.Close() // it ends by itself then; or was ended by the end of the test's context
		_ = command.Wait()
	})
	t.Cleanup(end)
	return &javaTools{t: t, calls: calls, answers: answers, close: end, stderr: func() string {
		text, _ := os.ReadFile(stderr.Name())
		return string(text)
	}}
}

// run runs a main class to its end.
func (j *javaTools) run(stdin, mainClass string, args ...string) result {
	j.t.Helper()
	words := append([]string{mainClass}, args...)
	call := binary.BigEndian.AppendUint32(nil, uint32(len(words)))
	for _, word := range words {
		call = binary.BigEndian.AppendUint16(call, uint16(len(word)))
		call = append(call, word...)
	}
	call = binary.BigEndian.AppendUint32(call, uint32(len(stdin)))
	call = append(call, stdin...)
	if _, err := j.calls.Write(call); err != nil {
		j.t.Fatalf("call %s: %v\n%s", mainClass, err, j.stderr())
	}
	var r result
	err := j.read(&r)
	if err != nil {
		j.t.Fatalf("answer of %s: %v\n%s", mainClass, err, j.stderr())
	}
	return r
}

func (j *javaTools) read(r *result) error {
	var exit, size int32
	if err := binary.Read(j.answers, binary.BigEndian, &exit); err != nil {
		return err
	}
	r.exit = int(exit)
	for _, text := range []*string{&r.stdout, &r.stderr} {
		if err := binary.Read(j.answers, binary.BigEndian, &size); err != nil {
			return err
		}
		var b bytes.Buffer
		if _, err := io.CopyN(&b, j.answers, int64(size)); err != nil {
			return err
		}
		*text = b.String()
	}
	return nil
}

// must wants exit status 0 and returns standard output.
func (j *javaTools) must(stdin, mainClass string, args ...string) string {
	j.t.Helper()
	r := j.run(stdin, mainClass, args...)
	if r.exit != 0 {
		j.t.Fatalf("%s %v: %v", mainClass, args, r)
	}
	return r.stdout
}

// produce sends a record to each of the topics, and returns what became of it (see Clients.Producer).
func (j *javaTools) produce(topics string, configs ...string) string {
	j.t.Helper()
	return j.must("", "Clients$Producer", append([]string{topics}, configs...)...)
}
