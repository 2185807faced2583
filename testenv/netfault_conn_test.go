package testenv

import (
	"errors"
	"io"
	"net"
	"testing"
)

func TestFaultyConnReads(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go far.Write([]byte("0123456789"))
	conn := NewFaultyConn(near)
	conn.ReadBytes, conn.ReadLimitBytes = 3, 7
	var got []string
	var last error
	for last == nil {
		p := make([]byte, 100)
		n, err := conn.Read(p)
		if err == nil {
			got = append(got, string(p[:n]))
		}
		last = err
	}
	if len(got) != 3 || got[0] != "012" || got[1] != "345" || got[2] != "6" {
		t.Errorf("read %q", got)
	}
	if !errors.Is(last, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", last)
	}
	if _, err := far.Write([]byte("x")); err == nil {
		t.Error("the other end is still open")
	}
}

func TestFaultyConnWrites(t *testing.T) {
	near, far := net.Pipe()
	conn := NewFaultyConn(near)
	conn.WriteBytes, conn.WriteLimitBytes = 2, 5
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome)
	go func() {
		n, err := conn.Write([]byte("01234567"))
		done <- outcome{n, err}
	}()
	var got []string
	for {
		p := make([]byte, 100)
		n, err := far.Read(p)
		if err != nil {
			break
		}
		got = append(got, string(p[:n]))
	}
	if len(got) != 3 || got[0] != "01" || got[1] != "23" || got[2] != "4" {
		t.Errorf("the other end read %q", got)
	}
	if o := <-done; o.n != 5 || !errors.Is(o.err, io.ErrClosedPipe) {
		t.Errorf("wrote %d, %v", o.n, o.err)
	}
}

func TestFaultyConnWithoutFaults(t *testing.T) {
	near, far := net.Pipe()
	conn := NewFaultyConn(near)
	go func() {
		conn.Write([]byte("whole"))
		conn.Close()
	}()
	got, err := io.ReadAll(far)
	if err != nil || string(got) != "whole" {
		t.Errorf("read %q, %v", got, err)
	}
}
