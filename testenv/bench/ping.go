package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

const (
	pingRounds = 5000
	pingWarmUp = 500
	// pingTimeout bounds all rounds together.
	pingTimeout = time.Minute
	// maxPong bounds what an answer may make us allocate; a broker's is below 1 KiB.
	maxPong = 64 << 10
)

// pings are the quantiles of the time of one small request and its answer.
type pings struct {
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
}

// ping sends ApiVersions v0 requests over one connection, each after the answer of the last.
// The proxy edits these answers, so that its figure is that of an edited frame.
func ping(addr string) (pings, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return pings{}, fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(pingTimeout)); err != nil {
		return pings{}, fmt.Errorf("ping: %w", err)
	}
	times := make([]time.Duration, 0, pingRounds)
	buffer := make([]byte, maxPong)
	for round := range int32(pingWarmUp + pingRounds) {
		start := time.Now()
		if err := pingOnce(conn, round, buffer); err != nil {
			return pings{}, fmt.Errorf("ping %s, round %d: %w", addr, round, err)
		}
		if round >= pingWarmUp {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	return pings{P50Micros: micros(quantile(times, 0.50)), P99Micros: micros(quantile(times, 0.99))}, nil
}

func pingOnce(conn io.ReadWriter, correlationID int32, buffer []byte) error {
	request := buffer[:14]
	binary.BigEndian.PutUint32(request, 10)         // size of the rest
	binary.BigEndian.PutUint32(request[4:], 18<<16) // ApiVersions, version 0
	binary.BigEndian.PutUint32(request[8:], uint32(correlationID))
	binary.BigEndian.PutUint16(request[12:], 0xffff) // no client id
	if _, err := conn.Write(request); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, buffer[:4]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(buffer)
	if size < 6 || size > maxPong {
		return fmt.Errorf("the answer has %d bytes", size)
	}
	answer := buffer[:size]
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if id := int32(binary.BigEndian.Uint32(answer)); id != correlationID {
		return fmt.Errorf("the answer is to request %d", id)
	}
	if code := int16(binary.BigEndian.Uint16(answer[4:])); code != 0 {
		return fmt.Errorf("the answer is error %d", code)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// quantile is the smallest value that at least the share q of the values do not exceed
// (nearest rank). sorted ascends and is not empty.
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(q * float64(len(sorted)))
	if float64(rank) < q*float64(len(sorted)) {
		rank++
	}
	return sorted[max(rank, 1)-1]
}
