package testenv

import (
	"net"
	"testing"
)

func TestReservedPortsAreDisjointAndFree(t *testing.T) {
	taken := map[int]bool{}
	for range 20 {
		block, err := ReservePorts(5)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { block.Close() })
		for i := range 5 {
			if taken[block.First+i] {
				t.Fatalf("port %d was given out twice", block.First+i)
			}
			taken[block.First+i] = true
			listener, err := net.Listen("tcp", block.Addr(i))
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
		}
	}
}

func TestClaimPorts(t *testing.T) {
	block, err := ReservePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := claimPorts(block.First+2, 1); err == nil {
		again.Close()
		t.Error("a reserved port was claimed again")
	}
	if err := block.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := claimPorts(block.First+2, 1)
	if err != nil {
		t.Fatalf("a returned port: %v", err)
	}
	again.Close()
	listener, err := net.Listen("tcp", block.Addr(1))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if partly, err := claimPorts(block.First, 3); err == nil {
		partly.Close()
		t.Error("a block with a port in use was claimed")
	}
	rest, err := claimPorts(block.First, 1)
	if err != nil {
		t.Fatalf("the block that failed left a claim behind: %v", err)
	}
	rest.Close()
}
