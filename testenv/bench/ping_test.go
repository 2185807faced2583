package main

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

func TestQuantileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
		{hundred[:1], 0.5, 1}, {hundred[:1], 0.99, 1}, {hundred[:3], 0.5, 2}, {hundred[:4], 0.5, 2},
	} {
		if got := quantile(c.sorted, c.q); got != c.want {
			t.Errorf("quantile %v of %d values: %v, want %v", c.q, len(c.sorted), got, c.want)
		}
	}
}

// serve answers each request on one end of a pipe with what answer makes of its correlation id.
func serve(t *testing.T, answer func(correlationID uint32) []byte) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close(); server.Close() })
	go func() {
		request := make([]byte, 14)
		for {
			if _, err := io.ReadFull(server, request); err != nil {
				return
			}
			body := answer(binary.BigEndian.Uint32(request[8:]))
			if _, err := server.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
				return
			}
		}
	}()
	return client
}

func TestPingChecksTheAnswer(t *testing.T) {
	correct := func(id uint32) []byte { return append(binary.BigEndian.AppendUint32(nil, id), 0, 0, 0, 0, 0, 0) }
	buffer := make([]byte, maxPong)
	conn := serve(t, correct)
	for id := range int32(3) {
		if err := pingOnce(conn, id, buffer); err != nil {
			t.Error(err)
		}
	}
	for what, answer := range map[string]func(uint32) []byte{
		"other id": func(id uint32) []byte { return correct(id + 1) },
		"error":    func(id uint32) []byte { return append(binary.BigEndian.AppendUint32(nil, id), 0, 35) },
		"short":    func(uint32) []byte { return []byte{0, 0} },
		"long":     func(uint32) []byte { return make([]byte, maxPong+1) },
	} {
		if err := pingOnce(serve(t, answer), 7, buffer); err == nil {
			t.Errorf("%s: the answer passed", what)
		}
	}
}
