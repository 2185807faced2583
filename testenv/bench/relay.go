package main

import (
	"errors"
	"io"
	"net"
)

// relay is the plain TCP proxy that ours is measured against. It copies bytes both ways and
// looks at none; io.Copy between two TCP connections is splice(2), so that they stay in the
// kernel. It serves until listener is closed.
func relay(listener net.Listener, upstream string) error {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			broker, err := net.Dial("tcp", upstream)
			if err != nil {
				return // the client sees its connection closed
			}
			defer broker.Close()
			go func() {
				io.Copy(broker, client)
				broker.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(client, broker)
		}()
	}
}
