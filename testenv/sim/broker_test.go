package sim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
)

// trouble is how often what goes wrong, per thousand requests; and for produce requests alone.
type trouble struct {
	cut, slow                                         int // any request: the connection ends before it is read; it takes seconds
	lost, unanswered, late, abandoned, refused, stuck int // produce requests
}

// cluster is a simulated Kafka cluster with one topic. mu guards the logs; it is never held while something waits.
type cluster struct {
	name    string
	topic   string
	topicID [16]byte
	brokers int32
	configs map[string]string // of topics and brokers alike
	latency time.Duration
	counts  *counts
	// wait is how long, after the client gave up, a produce request may still be appended.
	wait time.Duration

	mu           sync.Mutex
	random       *rand.Rand
	trouble      trouble
	stalled      map[int32]time.Time // a broker that does not move until then
	sources      []*source           // or
	destinations []*destination
	conns        map[net.Conn]int32
	told         map[told]int32 // the leader epoch at which it was
	defied       string
	closed       bool
	group        sync.WaitGroup
}

func (c *cluster) log(partition int32) *partitionLog {
	switch i := int(partition); {
	case i < 0 || i >= max(len(c.sources), len(c.destinations)):
		return nil
	case len(c.sources) > 0:
		return &c.sources[i].partitionLog
	default:
		return &c.destinations[i].partitionLog
	}
}

func (c *cluster) host(broker int32) string { return c.name + strconv.Itoa(int(broker)) }

var errRefused = errors.New("connection refused")

// dial connects a process to a broker by its "host:port".
func (c *cluster) dial(from, addr string) (net.Conn, error) {
	host, _, _ := strings.Cut(addr, ":")
	id, err := strconv.Atoi(strings.TrimPrefix(host, c.name))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.closed || !strings.HasPrefix(host, c.name) {
		return nil, errRefused
	}
	client, server := net.Pipe()
	c.conns[server] = int32(id)
	c.group.Go(func() {
		c.serve(server, int32(id), from)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, server)
	})
	return client, nil
}

// close ends all connections, and waits.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	for conn := range c.conns {
		conn.Close()
	}
	for i := range max(len(c.sources), len(c.destinations)) {
		c.log(int32(i)).notify()
	}
	c.mu.Unlock()
	c.group.Wait()
}

// cutAll closes the connections of a broker, as its end does.
func (c *cluster) cutAll(broker int32) {
	for conn, id := range c.conns {
		if id == broker {
			conn.Close()
		}
	}
}

// chance is true in so many of a thousand cases. Called with mu held.
func (c *cluster) chance(perThousand int) bool {
	return perThousand > 0 && c.random.IntN(1000) < perThousand
}

// serve answers the requests of a connection, one after the other, as a broker does. A request that was read whole is
// carried out whether or not its client is still there.
func (c *cluster) serve(conn net.Conn, broker int32, from string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		request, header, err := readRequest(in)
		if err != nil {
			return
		}
		c.noteWrite(request, from)
		fault := c.drawFault(request, broker)
		if fault.cutBefore {
			return
		}
		if fault.abandon {
			conn.Close()
		}
		if fault.late {
			c.linger(conn, in, fault.delay)
		} else {
			time.Sleep(fault.delay)
		}
		answer := c.answer(request, broker, fault)
		if answer == nil || fault.cutAfter {
			return
		}
		if _, err := conn.Write(frame(answer, header)); err != nil {
			return
		}
		c.noteAnswer(request, answer, from)
	}
}

// linger is the delay of a request; once its connection has ended, it is not under way for longer than wait.
func (c *cluster) linger(conn net.Conn, in *bufio.Reader, delay time.Duration) {
	begun := time.Now()
	conn.SetReadDeadline(begun.Add(delay))
	_, err := in.Peek(1)
	conn.SetReadDeadline(time.Time{})
	rest := delay - time.Since(begun)
	if err != nil {
		rest = min(rest, c.wait)
	}
	time.Sleep(rest)
}

// told is that a process was answered that its batch stands at a wrong offset.
type told struct {
	process   string
	partition int32
}

// noteAnswer notes who was told that a batch stands at another offset than its own.
func (c *cluster) noteAnswer(request kmsg.Request, answer kmsg.Response, from string) {
	produce, is := request.(*kmsg.ProduceRequest)
	if !is {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range answer.(*kmsg.ProduceResponse).Topics {
		for j, p := range t.Partitions {
			if p.ErrorCode == 0 && batch.SequenceOf(p.BaseOffset) != batch.Batch(produce.Topics[i].Partitions[j].Records).BaseSequence() {
				c.told[told{from, p.Partition}] = c.destinations[p.Partition].epoch
			}
		}
	}
}

// noteWrite notes who writes to a partition in spite of what it was told. After an election the log may be another one.
func (c *cluster) noteWrite(request kmsg.Request, from string) {
	produce, is := request.(*kmsg.ProduceRequest)
	if !is {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range produce.Topics {
		for _, p := range t.Partitions {
			if epoch, ok := c.told[told{from, p.Partition}]; ok && c.destinations[p.Partition].epoch == epoch && c.defied == "" {
				c.defied = fmt.Sprintf("partition %d: %s was answered that a batch stands at a wrong offset, and wrote the batch of offset %d (modulo 2^31) all the same",
					p.Partition, from, batch.Batch(p.Records).BaseSequence())
			}
		}
	}
}

// fault is what happens to one request.
type fault struct {
	cutBefore, cutAfter bool
	abandon             bool // the client loses the connection at once; the request is carried out all the same
	late                bool // the delay may be longer than the client waits
	delay               time.Duration
	refusal             int16
}

const clientGivesUp = 20 * time.Second // produce.Config: RequestTimeout and the slack for its answer

func (c *cluster) drawFault(request kmsg.Request, broker int32) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := fault{delay: c.latency}
	t := &c.trouble
	if stalled := time.Until(c.stalled[broker]); stalled > 0 {
		// It reads what lies in its buffers as soon as it moves again, in any order.
		f.delay += stalled + time.Duration(c.random.Int64N(int64(20*time.Millisecond)))
		return f
	}
	if _, is := request.(*kmsg.ProduceRequest); is {
		c.counts.produces.Add(1)
		switch {
		case c.chance(t.lost):
			f.cutBefore = true
		case c.chance(t.unanswered):
			f.cutAfter = true
		case c.chance(t.late): // answered after the client gave up, or just before
			f.late = true
			f.delay += time.Duration(c.random.Int64N(int64(clientGivesUp + c.wait)))
		case c.chance(t.abandoned):
			f.abandon = true
			f.delay += time.Duration(c.random.Int64N(int64(c.wait)))
		case c.chance(t.refused):
			f.refusal = passing[c.random.IntN(len(passing))]
		}
		return f
	}
	switch {
	case c.chance(t.cut):
		f.cutBefore = true
	case c.chance(t.slow):
		f.delay += time.Duration(c.random.Int64N(int64(18 * time.Second)))
	}
	return f
}

// readRequest reads one frame. header is its correlation id.
func readRequest(conn io.Reader) (kmsg.Request, int32, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, 0, err
	}
	r := kbin.Reader{Src: body}
	key, version, id := r.Int16(), r.Int16(), r.Int32()
	r.NullableString()
	request := kmsg.RequestForKey(key)
	if request == nil || r.Complete() != nil {
		return nil, 0, errors.New("not a request")
	}
	request.SetVersion(version)
	if request.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	return request, id, request.ReadFrom(slices.Clone(r.Src))
}

func frame(answer kmsg.Response, correlationID int32) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(correlationID))
	if answer.IsFlexible() && answer.Key() != kmsg.ApiVersions.Int16() {
		out = append(out, 0)
	}
	out = answer.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
