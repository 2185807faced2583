package connect

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxHandshakeBytes is the largest answer that authentication may bring.
const maxHandshakeBytes = 1 << 20

// Dial connects to a broker and does what security asks for: TLS, then SASL. The caller may
// send Kafka requests at once and sets its own deadlines.
func (s *Settings) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if s.tls != nil {
		config := s.tls.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: TLS: %w", addr, err), conn.Close())
		}
		conn = secured
	}
	if s.mechanism != nil {
		if err := s.authenticate(ctx, conn, addr); err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: SASL %s: %w", addr, s.mechanism.Name(), err), conn.Close())
		}
	}
	return conn, nil
}

// authenticate is SaslHandshake v1 and SaslAuthenticate v1 (KIP-152).
func (s *Settings) authenticate(ctx context.Context, conn net.Conn, addr string) error {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	exchange := handshake{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(s.ClientID))}
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, s.mechanism.Name()
	helloAnswer := hello.ResponseKind().(*kmsg.SASLHandshakeResponse)
	if err := exchange.do(hello, helloAnswer); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(helloAnswer.ErrorCode); err != nil {
		return fmt.Errorf("%w (the broker offers %v)", err, helloAnswer.SupportedMechanisms)
	}
	session, message, err := s.mechanism.Authenticate(ctx, addr)
	if err != nil {
		return err
	}
	for done := false; !done || len(message) > 0; {
		request := kmsg.NewPtrSASLAuthenticateRequest()
		request.Version, request.SASLAuthBytes = 1, message
		answer := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if err := exchange.do(request, answer); err != nil {
			return err
		}
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			if answer.ErrorMessage != nil {
				return fmt.Errorf("%w: %s", err, *answer.ErrorMessage)
			}
			return err
		}
		message = nil
		if !done {
			if done, message, err = session.Challenge(answer.SASLAuthBytes); err != nil {
				return err
			}
		}
	}
	return conn.SetDeadline(time.Time{})
}

// handshake sends one request after the other on a fresh connection.
type handshake struct {
	conn          net.Conn
	formatter     *kmsg.RequestFormatter
	correlationID int32
}

func (h *handshake) do(request kmsg.Request, answer kmsg.Response) error {
	h.correlationID++
	if _, err := h.conn.Write(h.formatter.AppendRequest(nil, request, h.correlationID)); err != nil {
		return err
	}
	var prefix [8]byte
	if _, err := io.ReadFull(h.conn, prefix[:]); err != nil {
		return err
	}
	size, id := int32(binary.BigEndian.Uint32(prefix[:])), int32(binary.BigEndian.Uint32(prefix[4:]))
	if size < 4 || size > maxHandshakeBytes || id != h.correlationID {
		return fmt.Errorf("answer of %d bytes to request %d while request %d waits", size, id, h.correlationID)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(h.conn, body); err != nil {
		return err
	}
	return answer.ReadFrom(body) // v1 of both is not flexible
}
