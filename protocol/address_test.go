package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// addressEdits are the edits that rewrite addresses. new makes kmsg's message; expect rewrites it field by field.
var addressEdits = []struct {
	key    int16
	edit   func(int16, []byte, AddressOf) ([]byte, error)
	new    func() message
	expect func(m message, version int16)
}{
	{KeyMetadata, EditMetadata, func() message { return kmsg.NewPtrMetadataResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.MetadataResponse).Brokers {
			b := &m.(*kmsg.MetadataResponse).Brokers[i]
			b.Host, b.Port = expected(b.NodeID)
		}
	}},
	{KeyFindCoordinator, EditFindCoordinator, func() message { return kmsg.NewPtrFindCoordinatorResponse() }, func(m message, version int16) {
		r := m.(*kmsg.FindCoordinatorResponse)
		if version < 4 {
			r.Host, r.Port = expected(r.NodeID)
		}
		for i := range r.Coordinators {
			c := &r.Coordinators[i]
			c.Host, c.Port = expected(c.NodeID)
		}
	}},
	{KeyDescribeCluster, EditDescribeCluster, func() message { return kmsg.NewPtrDescribeClusterResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.DescribeClusterResponse).Brokers {
			b := &m.(*kmsg.DescribeClusterResponse).Brokers[i]
			b.Host, b.Port = expected(b.NodeID)
		}
	}},
	{KeyDescribeQuorum, EditDescribeQuorum, func() message { return kmsg.NewPtrDescribeQuorumResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.DescribeQuorumResponse).Nodes {
			n := &m.(*kmsg.DescribeQuorumResponse).Nodes[i]
			for j := range n.Listeners {
				host, port := expected(n.NodeID)
				n.Listeners[j].Host, n.Listeners[j].Port = host, uint16(max(port, 0))
			}
		}
	}},
	{KeyProduce, EditProduceResponse, func() message { return kmsg.NewPtrProduceResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.ProduceResponse).Brokers {
			b := &m.(*kmsg.ProduceResponse).Brokers[i]
			b.Host, b.Port = expected(b.NodeID)
		}
	}},
	{KeyShareFetch, editShareAddresses, func() message { return kmsg.NewPtrShareFetchResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.ShareFetchResponse).NodeEndpoints {
			b := &m.(*kmsg.ShareFetchResponse).NodeEndpoints[i]
			b.Host, b.Port = expected(b.NodeID)
		}
	}},
	{KeyShareAcknowledge, EditShareAcknowledge, func() message { return kmsg.NewPtrShareAcknowledgeResponse() }, func(m message, _ int16) {
		for i := range m.(*kmsg.ShareAcknowledgeResponse).NodeEndpoints {
			b := &m.(*kmsg.ShareAcknowledgeResponse).NodeEndpoints[i]
			b.Host, b.Port = expected(b.NodeID)
		}
	}},
}

// expected is the rule in other words than the product's: nobody's address is "no address".
func expected(nodeID int32) (string, int32) {
	if nodeID == -1 {
		return "", -1
	}
	return fmt.Sprintf("proxy-%d", nodeID), 9093 + nodeID
}

// An edit changes the addresses and not one byte else: racks, cluster id, unknown tagged fields, error rows stay.
func TestEditsRewriteAddressesAndNothingElse(t *testing.T) {
	for _, e := range addressEdits {
		rewritten := 0
		everyVersion(t, e.key, func(t *testing.T, version int16, r *rand.Rand) {
			m := randomize(r, version, e.new())
			if p, ok := m.(*kmsg.ProduceResponse); ok && version < 10 {
				p.Brokers = nil // kmsg writes them at v9 too, brokers from v10 on
			}
			body := m.AppendTo(nil)
			before := bytes.Clone(body)
			got, err := e.edit(version, body, ourAddress)
			if err != nil {
				t.Fatal(err)
			}
			want := reread(t, version, before, e.new())
			e.expect(want, version)
			if !bytes.Equal(got, want.AppendTo(nil)) {
				t.Fatalf("% x\nwant\n% x", got, want.AppendTo(nil))
			}
			if bytes.Contains(got, []byte(upstreamHost)) {
				t.Fatal("an upstream host passes")
			}
			if !bytes.Equal(body, before) {
				t.Fatal("the answer was edited in place")
			}
			if bytes.Contains(before, []byte(upstreamHost)) {
				rewritten++
			}
		})
		if rewritten < 20 {
			t.Errorf("%s: only %d answers held addresses", KeyName(e.key), rewritten)
		}
	}
}

// An answer that ends too early, or goes on for too long where it is walked by bytes, is an error: never passed on unedited.
func TestEditsRefuseWhatTheyCannotRead(t *testing.T) {
	for _, e := range addressEdits {
		everyVersion(t, e.key, func(t *testing.T, version int16, r *rand.Rand) {
			if e.key == KeyProduce && !HasNodeEndpoints(KeyProduce, version) {
				return
			}
			body := randomize(r, version, e.new()).AppendTo(nil)
			cut := r.IntN(len(body))
			if out, err := e.edit(version, body[:cut], ourAddress); !errors.Is(err, ErrMalformed) || out != nil {
				t.Errorf("cut at %d of %d: %v", cut, len(body), err)
			}
		})
		_, maxVersion, _ := Versions(e.key)
		if e.key == KeyFindCoordinator {
			maxVersion = maxFindCoordinator
		}
		if e.key == KeyProduce {
			continue // without endpoints to the best of our knowledge, below; above, not offered
		}
		for _, version := range []int16{-1, maxVersion + 1} {
			if _, err := e.edit(version, make([]byte, 100), ourAddress); !errors.Is(err, ErrUnsupportedVersion) {
				t.Errorf("%s v%d: %v", KeyName(e.key), version, err)
			}
		}
	}
	if _, err := EditProduceResponse(14, make([]byte, 100), ourAddress); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("Produce v14: %v", err)
	}
}

func TestAddressOfIsAskedWithWhatTheBrokerSaid(t *testing.T) {
	m := kmsg.NewPtrMetadataResponse()
	m.Version = 12
	for _, id := range []int32{0, 7, -1, -2} {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = id, fmt.Sprintf("host%d", id), 9000+id
		m.Brokers = append(m.Brokers, b)
	}
	var asked []string
	got, err := EditMetadata(12, m.AppendTo(nil), func(nodeID int32, host string, port int32) (string, int32) {
		asked = append(asked, fmt.Sprintln(nodeID, host, port))
		return "p", 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0 host0 9000\n", "7 host7 9007\n"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v", asked)
	}
	answer := reread(t, 12, got, kmsg.NewPtrMetadataResponse())
	for i, want := range []string{"p:1", "p:1", ":-1", ":-1"} {
		if b := answer.Brokers[i]; fmt.Sprintf("%s:%d", b.Host, b.Port) != want {
			t.Errorf("broker %d: %s:%d", b.NodeID, b.Host, b.Port)
		}
	}
}

func TestDescribeQuorumPortMustFit(t *testing.T) {
	m := kmsg.NewPtrDescribeQuorumResponse()
	m.Version = 2
	m.Nodes = []kmsg.DescribeQuorumResponseNode{{NodeID: 1, Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Host: "h", Port: 1}}}}
	for _, port := range []int32{-1, 65536} {
		if _, err := EditDescribeQuorum(2, m.AppendTo(nil), func(int32, string, int32) (string, int32) { return "p", port }); err == nil {
			t.Errorf("port %d fits in 16 bits", port)
		}
	}
}

// The usual Produce answer has no endpoints and costs nothing.
func TestProduceAnswersWithoutEndpointsAreNotCopied(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		m := answerProduce(oneTopicProduce(version, "orders", 12), func(kmsg.ProduceRequestTopic) (int16, string) { return 0, "" })
		body := m.AppendTo(nil)
		if n := testing.AllocsPerRun(100, func() {
			if out, err := EditProduceResponse(version, body, ourAddress); err != nil || &out[0] != &body[0] || len(out) != len(body) {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
	}
}

func editShareAddresses(version int16, body []byte, a AddressOf) ([]byte, error) {
	return EditShareFetch(version, body, a, func(TopicRef) bool { return false }, nil)
}
