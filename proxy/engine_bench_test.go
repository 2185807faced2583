package proxy

import (
	"fmt"
	"io"
	"net"
	"testing"

	"kafka-mirror-proxy/state"
)

// BenchmarkRelayTCP is one client that sends requests through the proxy and reads their short
// answers; client, proxy and broker share the process, so that only differences mean something.
func BenchmarkRelayTCP(b *testing.B) {
	for _, payload := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("produce-%dKiB", payload>>10), func(b *testing.B) {
			broker := newScripted(b, func(conn *net.TCPConn) {
				buffer := make([]byte, 256<<10)
				frame := requestFrame(1, produceRequest(9, -1, payload, part{"other", state.TopicID{5}}))
				answer := brokerAnswers(b, frame)
				for taken := 0; ; {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					for taken += n; taken >= len(frame); taken -= len(frame) {
						if _, err := conn.Write(answer); err != nil {
							return
						}
					}
				}
			})
			server := startServer(b, mirroredStore(b).View, nil, broker.broker(1))
			conn := dialTo(b, server.node(1))
			frame := requestFrame(1, produceRequest(9, -1, payload, part{"other", state.TopicID{5}}))
			answer := make([]byte, len(brokerAnswers(b, frame)))
			b.SetBytes(int64(payload))
			b.ReportAllocs()
			const depth = 5
			sent := 0
			for received := 0; received < b.N; received++ {
				for ; sent < b.N && sent < received+depth; sent++ {
					if _, err := conn.Write(frame); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := io.ReadFull(conn, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
