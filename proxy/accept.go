package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/time/rate"
)

// acceptLog limits what a flood of connections can write to the log.
type acceptLog struct {
	refused, failed rate.Sometimes
	// closes limits the warnings about single connections; the rest is logged at debug level.
	closes *rate.Limiter
}

const (
	acceptLogInterval  = 10 * time.Second
	closeLogsPerSecond = 10
	closeLogsBurst     = 50
	// acceptBackoffMin and Max bound the pause after a failed accept: for want of file descriptors
	// only the end of other connections helps.
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// serveListener accepts on a listener once the server runs, until it is closed.
func (s *Server) serveListener(nodeID int32, listener net.Listener) {
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer listener.Close()
		select {
		case <-s.started:
		case <-s.draining.Done():
			return
		}
		closing := context.AfterFunc(s.draining, func() { listener.Close() })
		defer closing()
		s.accept(nodeID, listener)
	}()
}

func (s *Server) accept(nodeID int32, listener net.Listener) {
	metrics := s.cfg.Metrics.listener(nodeID)
	dial := s.dialFor(nodeID)
	backoff := acceptBackoffMin
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.cfg.Metrics.acceptFailures.Inc()
			s.acceptor.failed.Do(func() {
				s.cfg.Log.Error().Err(err).Int32("node", nodeID).Msg("cannot accept connections; trying on")
			})
			select {
			case <-time.After(backoff):
			case <-s.draining.Done():
				return
			}
			backoff = min(2*backoff, acceptBackoffMax)
			continue
		}
		backoff = acceptBackoffMin
		metrics.accepted.Inc()
		if s.open.Add(1) > int64(s.limits.Connections) {
			s.open.Add(-1)
			s.cfg.Metrics.close(CauseConnectionLimit)
			conn.Close()
			s.acceptor.refused.Do(func() {
				s.cfg.Log.Warn().Int("limit", s.limits.Connections).Int32("node", nodeID).Msg("too many connections; closing new ones")
			})
			continue
		}
		metrics.open.Inc()
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			s.serveConnection(nodeID, conn, dial)
			metrics.open.Dec()
			s.open.Add(-1)
		}()
	}
}

func (s *Server) serveConnection(nodeID int32, conn net.Conn, dial func(context.Context) (net.Conn, error)) {
	client := conn.RemoteAddr().String()
	session := newSession(s.shared, nodeID, client, s.cfg.Dialect)
	cause, err := s.engine.Serve(s.hard, conn, dial, session)
	s.cfg.Metrics.close(cause)
	event := s.cfg.Log.Debug()
	if !cause.routine() && s.acceptor.closes.Allow() {
		event = s.cfg.Log.Warn()
	}
	event.Err(err).Stringer("cause", cause).Str("client", client).Int32("node", nodeID).Msg("connection closed")
}
