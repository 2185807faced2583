package produce

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswerBytes is the largest answer to a produce that is read.
const maxAnswerBytes = 16 << 20

// Dial opens a connection on which Kafka requests may be sent at once.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// wire is a connection to one broker that sends one request at a time. It is owned by one
// goroutine. After an error it is of no use any more.
type wire struct {
	conn           net.Conn
	formatter      *kmsg.RequestFormatter
	correlationID  int32
	produceVersion int16
	frame          frame
	in             []byte // reused
}

const clientID = "kafka-mirror-proxy"

// openWire connects and finds the Produce version to use: the newest both know, so that topics
// are named by id (v13) wherever the broker can.
func openWire(ctx context.Context, dial Dial, addr string, deadline time.Time) (*wire, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
	if err := w.negotiate(deadline); err != nil {
		w.close()
		return nil, fmt.Errorf("ask %s for its versions: %w", addr, err)
	}
	return w, nil
}

func (w *wire) negotiate(deadline time.Time) error {
	request := kmsg.NewPtrApiVersionsRequest()
	request.Version = 0 // every broker answers this one
	answer := request.ResponseKind().(*kmsg.ApiVersionsResponse)
	if err := w.send(request, deadline); err != nil {
		return err
	}
	if err := w.receive(answer); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return err
	}
	const wanted, oldest = 13, 7
	for _, key := range answer.ApiKeys {
		if key.ApiKey == kmsg.Produce.Int16() && key.MaxVersion >= oldest && key.MinVersion <= wanted {
			w.produceVersion = min(wanted, key.MaxVersion)
			return nil
		}
	}
	return fmt.Errorf("it offers no Produce version from %d to %d", oldest, wanted)
}

// send writes a control request.
func (w *wire) send(request kmsg.Request, deadline time.Time) error {
	w.correlationID++
	if err := w.conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := w.conn.Write(w.formatter.AppendRequest(nil, request, w.correlationID))
	return err
}

// sendProduce writes batches; acks is -1 for all. begun says that bytes may have reached the broker.
func (w *wire) sendProduce(topics []frameTopic, acks int16, timeout time.Duration, deadline time.Time) (begun bool, err error) {
	w.correlationID++
	w.frame.layOut(w.produceVersion, w.correlationID, clientID, acks, timeout, topics)
	if err := w.conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	return true, w.frame.writeTo(w.conn)
}

// receive reads the answer to the last request. What answer holds is good until the next call.
func (w *wire) receive(answer kmsg.Response) error {
	var prefix [8]byte
	if _, err := io.ReadFull(w.conn, prefix[:]); err != nil {
		return err
	}
	size, id := int64(binary.BigEndian.Uint32(prefix[:])), int32(binary.BigEndian.Uint32(prefix[4:]))
	if size < 4 || size > maxAnswerBytes || id != w.correlationID {
		return fmt.Errorf("answer of %d bytes to request %d while request %d waits", size, id, w.correlationID)
	}
	if int64(cap(w.in)) < size-4 {
		w.in = make([]byte, size-4)
	}
	body := w.in[:size-4]
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return err
	}
	if answer.IsFlexible() && answer.Key() != kmsg.ApiVersions.Int16() { // tags of the header; ApiVersions has none
		var err error
		if body, err = skipTags(body); err != nil {
			return err
		}
	}
	return answer.ReadFrom(body)
}

// skipTags drops the tagged fields of a flexible response header.
func skipTags(body []byte) ([]byte, error) {
	count, n := binary.Uvarint(body)
	for body = body[max(n, 0):]; n > 0 && count > 0; count-- {
		if _, n = binary.Uvarint(body); n <= 0 { // the tag
			break
		}
		body = body[n:]
		size, m := binary.Uvarint(body)
		if n = m; m <= 0 || size > uint64(len(body)-m) {
			n = 0
			break
		}
		body = body[m+int(size):]
	}
	if n <= 0 {
		return nil, fmt.Errorf("header of an answer: %w", io.ErrUnexpectedEOF)
	}
	return body, nil
}

func (w *wire) close() { w.conn.Close() }

// abort closes the connection and takes back what has not left this host: the kernel would go on sending it for minutes
// where a broker does not acknowledge it.
func (w *wire) abort() {
	conn := w.conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	}
	if tcp, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // fails only where it is closed already
		conn.Close()
	}
	w.conn.Close()
}
