package acceptance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kafka-mirror-proxy/testenv"
)

// Isolation levels and starts of a readOrder.
const (
	readUncommitted = "read_uncommitted"
	readCommitted   = "read_committed"

	startBeginning = "beginning" // assigned, from the log's start
	startGroup     = "group"     // subscribed, as a new group that begins at the log's start
	startOffset    = "offset"    // assigned, from readOrder.offset
)

// readOrder is what a client is to do with partition 0 of a topic. A reader gets it as a line of words, and gives a line
// "record OFFSET VALUE" for each record, without end, or "error REASON". At the next line it gets it commits as its group,
// where it can commit its position, and says "end POSITION", or "end -1" where the client does not tell it.
type readOrder struct {
	bootstrap, topic string
	isolation, start string
	offset           int64 // of startOffset
	group, clientID  string
}

func (o readOrder) String() string {
	return fmt.Sprint(o.bootstrap, " ", o.topic, " ", o.isolation, " ", o.start, " ", o.offset, " ", o.group, " ", o.clientID)
}

// parseReadOrder is the inverse of String, for the readers in this process.
func parseReadOrder(line string) (o readOrder, err error) {
	_, err = fmt.Sscan(line, &o.bootstrap, &o.topic, &o.isolation, &o.start, &o.offset, &o.group, &o.clientID)
	return o, err
}

// reader is a client library, and the program that it needs on the machine.
type reader struct {
	name, needs string
	// command starts it as a process of its own; nil for those in this process.
	command func(ctx context.Context) (*exec.Cmd, error)
	// read carries out one order in this process until stop is closed.
	read func(ctx context.Context, order readOrder, record func(offset int64, value []byte), stop <-chan struct{}) error
	// commitsPosition says that it commits where it is, so that a group's lag reaches 0 behind filler; others commit what
	// follows the last record.
	commitsPosition bool
}

var readers = []reader{
	{name: "java-classic", needs: "java", command: javaReader("classic"), commitsPosition: true},
	{name: "java-consumer", needs: "java", command: javaReader("consumer"), commitsPosition: true},
	{name: "confluent-kafka", needs: "python3", command: pythonReader("confluent_kafka"), commitsPosition: true},
	{name: "kcat", needs: "kcat", read: kcatRead},
	{name: "franz-go", needs: "go", read: franzRead},
	{name: "sarama", needs: "go", read: saramaRead},
	{name: "kafkajs", needs: "node", command: nodeReader("kafkajs")},
	{name: "aiokafka", needs: "python3", command: pythonReader("aiokafka"), commitsPosition: true},
	{name: "kafka-python", needs: "python3", command: pythonReader("kafka_python"), commitsPosition: true},
}

func javaReader(protocol string) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		return testenv.JavaCommand(ctx, filepath.Join("readers", "Reader.java"), protocol)
	}
}

func pythonReader(name string) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		return testenv.PythonCommand(ctx, filepath.Join("readers", name+"_reader.py"))
	}
}

func nodeReader(name string) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		return testenv.NodeCommand(ctx, filepath.Join("readers", name+"_reader.js"))
	}
}

// readerSession is a reader that waits for orders.
type readerSession struct {
	t      *testing.T
	orders io.Writer
	lines  chan string // what it says; closed at its end
	stderr string      // path
}

// start starts the reader; it ends with the test.
func (r *reader) start(t *testing.T) *readerSession {
	t.Helper()
	testenv.Needs(t, r.needs)
	stderr, err := os.Create(filepath.Join(t.TempDir(), r.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close() // a process has its own copy
	s := &readerSession{t: t, lines: make(chan string, 1000), stderr: stderr.Name()}
	var said io.Reader
	var end func()
	if r.command == nil {
		said, end = s.startHere(r)
	} else {
		command, err := r.command(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		command.Stderr = stderr
		orders, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if said, err = command.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatalf("start %s: %v", r.name, err)
		}
		s.orders = orders
		end = func() { orders.Close(); _ = command.Wait() } // it ends by itself then, or was ended with the test's context
	}
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		defer close(s.lines)
		for scanner := bufio.NewScanner(said); scanner.Scan(); {
			select {
			case s.lines <- scanner.Text():
			case <-t.Context().Done():
			}
		}
	}()
	t.Cleanup(func() { end(); <-scanned })
	return s
}

// startHere is start for a reader in this process.
func (s *readerSession) startHere(r *reader) (said io.Reader, end func()) {
	ordersIn, ordersOut := io.Pipe()
	saidIn, saidOut := io.Pipe()
	s.orders = ordersOut
	var serving sync.WaitGroup
	serving.Go(func() {
		defer saidOut.Close()
		lines := bufio.NewScanner(ordersIn)
		for lines.Scan() {
			order, err := parseReadOrder(lines.Text())
			if err == nil {
				err = serveOrder(s.t.Context(), r, order, lines, saidOut)
			}
			if err != nil {
				fmt.Fprintln(saidOut, "error", err)
			}
		}
	})
	return saidIn, func() { ordersOut.Close(); saidIn.Close(); serving.Wait() }
}

// serveOrder carries out one order; the next line ends it.
func serveOrder(ctx context.Context, r *reader, order readOrder, lines *bufio.Scanner, said io.Writer) error {
	stop := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() { lines.Scan(); close(stop) })
	err := r.read(ctx, order, func(offset int64, value []byte) { fmt.Fprintln(said, "record", offset, string(value)) }, stop)
	if err != nil {
		fmt.Fprintln(said, "error", err)
	}
	listening.Wait()
	_, err = fmt.Fprintln(said, "end -1")
	return err
}

// say hands the reader a line.
func (s *readerSession) say(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.orders, line); err != nil {
		s.t.Fatalf("tell the reader %q: %v\n%s", line, err, s.log())
	}
}

// readRecord is a record as a reader tells of it.
type readRecord struct {
	offset int64
	value  string
}

// heard is what a line of a reader means.
type heard struct {
	record *readRecord
	end    bool
	at     int64 // with end: its position, or -1
}

func parseHeard(line string) (h heard, err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "record":
		h.record = &readRecord{}
		_, err = fmt.Sscan(rest, &h.record.offset, &h.record.value)
	case "end":
		h.end = true
		_, err = fmt.Sscan(rest, &h.at)
	default:
		err = errors.New("it is no record")
	}
	return h, err
}

func (s *readerSession) log() string {
	text, _ := os.ReadFile(s.stderr)
	return string(text[max(0, len(text)-3000):])
}
