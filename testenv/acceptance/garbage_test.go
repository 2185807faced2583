package acceptance

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/testenv"
)

const (
	// garbageMemoryBytes is how much the proxy's memory may grow by garbage, whatever comes: that of its windows, and of
	// what has arrived of requests to be held whole.
	garbageMemoryBytes = 256 << 20
	// idleConnections is how many connections send nothing.
	idleConnections = 10_000
	// idleBytes is how much memory one of them may cost.
	idleBytes = 32 << 10
	// filesBeside is what client and proxy need beside them.
	filesBeside = 500
	// spareGoroutines may be more after garbage than before, such as those of the broker connections of the proxy itself.
	spareGoroutines = 100
)

// garbage is a proxy that gets some, and a client beside it that must not notice. The proxy is a process of its own, and
// the test is the client.
type garbage struct {
	*mirrored
	t       *testing.T
	rand    *rand.Rand
	witness *witness
}

func startGarbage(t *testing.T) *garbage {
	m := startMirrored(t)
	return &garbage{mirrored: m, t: t, rand: newRand(t), witness: startWitness(t, m.proxy)}
}

// harmless runs one kind of garbage and wants it to have left no trace: memory, goroutines and connections as before, the
// other client at work.
func (g *garbage) harmless(name string, attack func(t *testing.T)) {
	g.t.Run(name, func(t *testing.T) {
		memory, goroutines := residentBytes(t, g.PID()), g.Metric("go_goroutines")
		attack(t)
		g.witness.AwaitRounds("after "+name, 3)
		if grown := residentBytes(t, g.PID()) - memory; grown > garbageMemoryBytes {
			t.Errorf("memory grew by %d bytes", grown)
		}
		testenv.Eventually(t, callTimeout, "the goroutines to end", func() error {
			if now := g.Metric("go_goroutines"); now > goroutines+spareGoroutines {
				return fmt.Errorf("%v goroutines, %v before", now, goroutines)
			}
			return nil
		})
		wantServed(t, g.proxy, "after "+name)
	})
}

// closedOn wants the proxy to close a connection on which these bytes come.
func (g *garbage) closedOn(t *testing.T, what string, sent []byte) {
	t.Helper()
	conn := dialRaw(t, g.Address())
	defer conn.Close()
	conn.send(sent)
	conn.wantClosed(what)
}

// TestGarbage: whatever comes to the port, the proxy stands, and others do not notice.
func TestGarbage(t *testing.T) {
	g := startGarbage(t)
	defer g.Drop()
	g.harmless("lengths", g.lengths)
	g.harmless("other protocols", g.otherProtocols)
	g.harmless("random bytes", g.randomBytes)
	g.harmless("unknown keys", g.unknownKeys)
	g.harmless("garbage bodies", g.garbageBodies)
	g.harmless("half a frame and silence", g.halfFrames)
}

// lengths are sizes that no request has.
func (g *garbage) lengths(t *testing.T) {
	const largest = 101 << 20 // that the proxy takes
	for _, length := range []int32{math.MaxInt32, math.MinInt32, -1, 0, largest + 1} {
		g.closedOn(t, fmt.Sprintf("length %d", length), binary.BigEndian.AppendUint32(nil, uint32(length)))
	}
	for length := range uint32(8) { // too short for a header
		frame := binary.BigEndian.AppendUint32(nil, length)
		g.closedOn(t, fmt.Sprintf("length %d", length), append(frame, make([]byte, length)...))
	}
}

// otherProtocols are clients that took the wrong port.
func (g *garbage) otherProtocols(t *testing.T) {
	before := g.Metric(`kafka_mirror_proxy_closes_total{cause="tls_on_plain_port"}`)
	conn := dialRaw(t, g.Address())
	_ = conn.SetDeadline(time.Now().Add(rawTimeout))
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); !isClosed(err) {
		t.Errorf("TLS handshake: %v", err)
	}
	testenv.Eventually(t, callTimeout, "the TLS client to be recognised", func() error {
		if g.Metric(`kafka_mirror_proxy_closes_total{cause="tls_on_plain_port"}`) != before+1 {
			return errors.New("it is not")
		}
		return nil
	})
	g.closedOn(t, "HTTP", []byte("GET / HTTP/1.1\r\nHost: proxy\r\n\r\n"))
	g.closedOn(t, "SSH", []byte("SSH-2.0-OpenSSH_9.6\r\n"))
	g.closedOn(t, "PROXY protocol", []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"))
}

// randomBytes come in any number, and then nothing more.
func (g *garbage) randomBytes(t *testing.T) {
	for range rounds(100, 5000) {
		g.sendAndGo(t, g.random(g.rand.IntN(4096)))
	}
}

// unknownKeys are requests of APIs that do not exist. They are the brokers' business.
func (g *garbage) unknownKeys(t *testing.T) {
	for range rounds(50, 2000) {
		key := int16(g.rand.Uint32())
		if lowest, _, known := protocol.Versions(key); known || lowest != 0 || key >= 0 && key <= kmsg.MaxKey {
			key = -key - 1
		}
		body := g.random(g.rand.IntN(64))
		g.sendAndGo(t, append(header(key, int16(g.rand.Uint32()), g.rand.IntN(2) == 0, len(body)), body...))
	}
	for _, key := range []int16{-1, math.MinInt16, 999, math.MaxInt16} {
		g.sendAndGo(t, append(header(key, 0, false, 4), 0, 0, 0, 0))
	}
}

// garbageBodies come behind the header of every API that the proxy looks into, at every version and some that do not
// exist: random bytes, and real requests with bytes changed or cut off.
func (g *garbage) garbageBodies(t *testing.T) {
	for key := range int16(128) {
		lowest, highest, known := protocol.Versions(key)
		mirrors := key >= protocol.KeyMirrorFirst && key <= protocol.KeyMirrorLast
		if !known && !mirrors {
			continue
		}
		for version := max(0, lowest-1); version <= highest+2; version++ {
			flexible := protocol.Flexible(key, version)
			for range rounds(3, 100) {
				body := g.random(g.rand.IntN(300))
				if !neverAnswered(key, version, body) {
					g.sendAndGo(t, append(header(key, version, flexible, len(body)), body...))
				}
				if real := kmsg.RequestForKey(key); real != nil && !mirrors && version <= real.MaxVersion() {
					real.SetVersion(version)
					body := g.spoil(real.AppendTo(nil))
					if !neverAnswered(key, version, body) {
						g.sendAndGo(t, append(header(key, version, flexible, len(body)), body...))
					}
				}
			}
		}
	}
}

// neverAnswered tells the request that a stock broker takes and never answers: AddPartitionsToTxn for no transaction.
func neverAnswered(key, version int16, body []byte) bool {
	return key == protocol.KeyAddPartitionsToTxn && version >= 4 && len(body) > 0 && body[0] <= 1
}

func (g *garbage) random(count int) []byte {
	bytes := make([]byte, count)
	for i := range bytes {
		bytes[i] = byte(g.rand.Uint32())
	}
	return bytes
}

// spoil changes a body a little.
func (g *garbage) spoil(body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	for range 1 + g.rand.IntN(3) {
		body[g.rand.IntN(len(body))] = byte(g.rand.Uint32())
	}
	if g.rand.IntN(2) == 0 {
		return body[:g.rand.IntN(len(body)+1)]
	}
	return append(body, g.random(g.rand.IntN(20))...)
}

// sendAndGo sends bytes, ends its side, and wants the connection to come to its end: with an answer or without.
func (g *garbage) sendAndGo(t *testing.T, sent []byte) {
	t.Helper()
	conn := dialRaw(t, g.Address())
	defer conn.Close()
	conn.send(sent)
	_ = conn.Conn.(*net.TCPConn).CloseWrite()
	if _, err := conn.drain(); !isClosed(err) {
		t.Errorf("%d bytes, %x...: the connection does not end: %v", len(sent), sent[:min(len(sent), 40)], err)
	}
}

// rounds is how often something is tried: less in every run than in the long one.
func rounds(usual, many int) int {
	if long() {
		return many
	}
	return usual
}

// halfFrames begin and fall silent at every place where a request can. Those without a whole header never get to a broker
// and are closed after a while; the proxy dials when the header is whole.
func (g *garbage) halfFrames(t *testing.T) {
	ports := brokerPorts(t)
	whole := frameOf(kmsg.NewPtrApiVersionsRequest(), 0)
	const each = 20
	dialled := brokerSockets(t, g.PID(), ports)
	timeouts := g.Metric(`kafka_mirror_proxy_closes_total{cause="header_timeout"}`)
	var silent []rawConn
	for _, cut := range []int{0, 1, 3, 4, 5, 7, 11} { // up to one byte short of key, version and correlation id
		for range each {
			conn := dialRaw(t, g.Address())
			conn.send(whole[:cut])
			silent = append(silent, conn)
		}
	}
	testenv.Eventually(t, callTimeout, "the silent connections to be accepted", func() error {
		if open := g.Metric(`kafka_mirror_proxy_connections_open{listener="bootstrap"}`); open < float64(len(silent)) {
			return fmt.Errorf("%v are open", open)
		}
		return nil
	})
	if now := brokerSockets(t, g.PID(), ports); now >= dialled+each {
		t.Errorf("the proxy holds %d connections to brokers, %d before %d connections without a whole header came", now, dialled, len(silent))
	}
	g.witness.AwaitRounds("beside silent connections", 10)

	answered := silent[len(silent)-each:]
	for _, conn := range answered {
		conn.send(whole[11:])
	}
	for _, conn := range answered {
		_ = conn.SetReadDeadline(time.Now().Add(rawTimeout))
		if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
			t.Errorf("a request that was late, but whole: %v", err)
		}
	}
	if now := brokerSockets(t, g.PID(), ports); now < dialled+each {
		t.Errorf("the proxy holds %d connections to brokers, %d before, %d clients were answered", now, dialled, each)
	}
	g.halfBodies(t)
	for _, conn := range silent[:len(silent)-each] {
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute)) // four times what the proxy gives them
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection without a whole header: %v, want it closed", err)
		}
	}
	want := float64(len(silent) - each)
	testenv.Eventually(t, callTimeout, "the closes to be counted", func() error { // a peer sees the close before it is
		if closed := g.Metric(`kafka_mirror_proxy_closes_total{cause="header_timeout"}`) - timeouts; closed < want {
			return fmt.Errorf("%v connections were closed for want of a header, want %v", closed, want)
		}
		return nil
	})
}

// halfBodies name large requests that the proxy would have to hold whole, and fall silent. They must not keep others from
// requests that it must hold whole too.
func (g *garbage) halfBodies(t *testing.T) {
	const claimed = 60 << 20
	memory := residentBytes(t, g.PID())
	var holding []rawConn
	for range 20 {
		conn := dialRaw(t, g.Address())
		conn.send(header(protocol.KeyFetch, 12, true, claimed))
		conn.send(make([]byte, 100<<10)) // more than a window
		holding = append(holding, conn)
	}
	testenv.Eventually(t, callTimeout, "half requests to be held", func() error {
		if held := g.Metric("kafka_mirror_proxy_held_bytes"); held < 20*100<<10 {
			return fmt.Errorf("%v bytes are held", held)
		}
		return nil
	})
	if held := g.Metric("kafka_mirror_proxy_held_bytes"); held > 20<<20 {
		t.Errorf("%v bytes are held for what 20 connections only claim to send", held)
	}
	if grown := residentBytes(t, g.PID()) - memory; grown > garbageMemoryBytes {
		t.Errorf("memory grew by %d bytes for %d half requests", grown, len(holding))
	}
	g.witness.AwaitRounds("beside half requests", 10)
	g.produceHeldWhole(t)
	for _, conn := range holding {
		conn.Close()
	}
}

// produceHeldWhole sends a request that the proxy must hold whole: of two topics, and larger than a window.
func (g *garbage) produceHeldWhole(t *testing.T) {
	t.Helper()
	client := newClient(t, g.Bootstrap())
	defer client.Close()
	var aims []topicAim
	for range 2 {
		topic := uniqueName("ordinary")
		createOrdinary(t, g.proxy, topic, []int32{1, 2, 3})
		aims = append(aims, aimAt(t, client, topic))
	}
	request := produceRequest(-1, aims...)
	for i := range request.Topics {
		request.Topics[i].Partitions[0].Records = batchOf(strings.Repeat("large ", 30_000))
	}
	answer, err := client.Broker(1).Request(within(t), request)
	if err != nil {
		t.Fatalf("a large request to two topics: %v", err)
	}
	for _, topic := range answer.(*kmsg.ProduceResponse).Topics {
		if code := topic.Partitions[0].ErrorCode; code != 0 {
			t.Errorf("a large request to two topics: error code %d", code)
		}
	}
}

// TestGarbageIdleConnections: very many connections that send nothing cost little, reach no broker, and are closed.
func TestGarbageIdleConnections(t *testing.T) {
	g := startGarbage(t)
	defer g.Drop()
	const open = `kafka_mirror_proxy_connections_open{listener="bootstrap"}`
	count := idleConnections
	for _, pid := range []int{os.Getpid(), g.PID()} {
		limitFiles(t, pid, math.MaxUint64) // as many as the machine allows
		if most := int(limitFiles(t, pid, 0)); most < count+filesBeside {
			count = most - filesBeside
			t.Logf("THIS MACHINE ALLOWS %d OPEN FILES: %d idle connections instead of %d", most, count, idleConnections)
		}
	}
	ports := brokerPorts(t)
	memory, goroutines, dialled, before := residentBytes(t, g.PID()), g.Metric("go_goroutines"), brokerSockets(t, g.PID(), ports), g.Metric(open)
	var idle []net.Conn
	defer func() { closeAll(idle) }()
	for range count {
		conn, err := net.DialTimeout("tcp", g.Address(), rawTimeout)
		if err != nil {
			t.Fatalf("connection %d: %v", len(idle), err)
		}
		idle = append(idle, conn)
	}
	most := 0.0 // those that came first may be closed for their silence before the last are there
	testenv.Eventually(t, callTimeout, "the idle connections to be accepted", func() error {
		most = max(most, g.Metric(open)-before)
		if accepted := g.Metric(`kafka_mirror_proxy_connections_total{listener="bootstrap"}`); accepted < float64(count) {
			return fmt.Errorf("%v are accepted", accepted)
		}
		return nil
	})
	grown := residentBytes(t, g.PID()) - memory
	t.Logf("%d connections, up to %v at once: memory grew by %d bytes", count, most, grown)
	if grown > int64(count)*idleBytes {
		t.Errorf("memory grew by %d bytes for %d idle connections, want at most %d for each", grown, count, idleBytes)
	}
	if now := brokerSockets(t, g.PID(), ports); now > dialled+spareGoroutines {
		t.Errorf("the proxy holds %d connections to brokers, %d before the idle ones came", now, dialled)
	}
	g.witness.AwaitRounds("beside idle connections", 10)
	wantServed(t, g.proxy, "beside idle connections")
	closeAll(idle)
	idle = nil
	testenv.Eventually(t, callTimeout, "the idle connections to be gone", func() error {
		if now := g.Metric(open); now > before+spareGoroutines {
			return fmt.Errorf("%v are open, %v before", now, before)
		}
		if now := g.Metric("go_goroutines"); now > goroutines+spareGoroutines {
			return fmt.Errorf("%v goroutines, %v before", now, goroutines)
		}
		return nil
	})
	g.witness.AwaitRounds("after idle connections", 10)
}
