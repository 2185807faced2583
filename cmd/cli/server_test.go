package cli

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// fakeProxy answers ApiVersions, Metadata and, by way of answer, everything else.
type fakeProxy struct {
	t        *testing.T
	listener net.Listener
	stock    bool // offers no mirror APIs
	answer   func(key int16, body []byte) []byte
}

func newFakeProxy(t *testing.T, answer func(key int16, body []byte) []byte) *fakeProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &fakeProxy{t: t, listener: l, answer: answer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return p
}

func (p *fakeProxy) address() string { return p.listener.Addr().String() }

func (p *fakeProxy) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		key := int16(binary.BigEndian.Uint16(frame))
		version := int16(binary.BigEndian.Uint16(frame[2:]))
		clientID := int(int16(binary.BigEndian.Uint16(frame[8:])))
		body := frame[10+max(clientID, 0)+1:] // every request of the tool is flexible: one byte of header tags
		reply := append([]byte(nil), frame[4:8]...)
		switch kmsg.Key(key) {
		case kmsg.ApiVersions:
			reply = p.apiVersions(version).AppendTo(reply)
		case kmsg.Metadata:
			reply = p.metadata(version).AppendTo(append(reply, 0))
		default:
			reply = append(append(reply, 0), p.answer(key, body)...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func (p *fakeProxy) apiVersions(version int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version = min(version, 4)
	add := func(key, max int16) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, max
		r.ApiKeys = append(r.ApiKeys, k)
	}
	add(int16(kmsg.ApiVersions), 4)
	add(int16(kmsg.Metadata), 12)
	add(int16(kmsg.IncrementalAlterConfigs), 1)
	if !p.stock {
		for _, row := range mirrormsg.Seed.Keys {
			add(row.Key, 0)
		}
	}
	return r
}

func (p *fakeProxy) metadata(version int16) *kmsg.MetadataResponse {
	r := kmsg.NewPtrMetadataResponse()
	r.Version = version
	host, port, _ := net.SplitHostPort(p.address())
	n, _ := strconv.Atoi(port)
	for id := range int32(2) { // two brokers, so that describe has something to merge
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = id, host, int32(n)
		r.Brokers = append(r.Brokers, b)
	}
	return r
}
