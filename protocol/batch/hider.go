package batch

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Hider turns record sets, as Fetch answers them, into what clients are to see of them. It remembers what it found within
// compressed batches, so that each is looked into once, not once for every consumer. Safe for concurrent use.
type Hider struct {
	coders chan *Coder // all there are; nil in place of one that is not made yet
	seed   maphash.Seed
	limit  int64

	mu    sync.Mutex
	known *simplelru.LRU[batchKey, seen]
	// fillers is the compressed records of filler by their number: a long run of filler is the same bytes over and over, and
	// to compare them takes a thousandth of looking into them.
	fillers *simplelru.LRU[int32, []byte]
	cached  *atomic.Int64
	hidden  *atomic.Int64
}

// At most so many sizes of filler are kept, none larger than this: a little above what MaxFillerRecords take.
const (
	fillerSizes    = 8
	maxFillerBytes = 160 << 10
)

// HiderConfig sets up a Hider.
type HiderConfig struct {
	// Coders is how many batches are looked into at once, at least 1; each takes a few MinLimitBytes.
	Coders int
	// CacheBytes bounds what is remembered of batches: about 200 bytes each, and what is seen in its place.
	CacheBytes int64
	// CachedBytes is what is remembered now, HiddenBatches counts the batches that clients were given something else for.
	CachedBytes, HiddenBatches *atomic.Int64
}

// Place is the partition that a record set is of: its topic's name or id, whichever the answer has.
type Place struct {
	Topic     []byte
	Partition int32
}

// batchKey tells a batch from all others. The CRC alone would not: who may write to a topic can make a batch of any CRC,
// and must not be able to pass it off as one of another topic. The seed of the hash is random for the same reason.
type batchKey struct {
	topic       uint64
	partition   int32
	length      int32
	baseOffset  int64
	producerID  int64
	crc         uint32 // does not cover base offset and leader epoch
	leaderEpoch int32
}

// seen is what clients see in place of a batch, nil when they see the batch itself.
type seen []byte

// seenBytes is what remembering a batch takes beyond what is seen in its place, roughly.
const seenBytes = 200

func (s seen) bytes() int64 { return seenBytes + int64(len(s)) }

// NewHider returns a Hider.
func NewHider(cfg HiderConfig) (*Hider, error) {
	if cfg.Coders < 1 || cfg.CacheBytes < seenBytes {
		return nil, fmt.Errorf("hider: %d coders and a cache of %d bytes: too little", cfg.Coders, cfg.CacheBytes)
	}
	h := &Hider{coders: make(chan *Coder, cfg.Coders), seed: maphash.MakeSeed(), limit: cfg.CacheBytes,
		cached: cfg.CachedBytes, hidden: cfg.HiddenBatches}
	for range cfg.Coders {
		h.coders <- nil
	}
	var err error
	h.known, err = simplelru.NewLRU(int(cfg.CacheBytes/seenBytes), func(_ batchKey, s seen) { h.cached.Add(-s.bytes()) })
	if err != nil {
		return nil, fmt.Errorf("hider: %w", err)
	}
	if h.fillers, err = simplelru.NewLRU[int32, []byte](fillerSizes, nil); err != nil {
		return nil, fmt.Errorf("hider: %w", err)
	}
	return h, nil
}

// AppendVisible appends what clients are to see of a record set when something in it has to be hidden: batches of mirrors
// that are filler, that mix data and filler, or that the cleaner has emptied (kafkajs stalls on those). All else stays as
// it is: data, batches of magic 0 and 1, a last one that is cut by the fetch size, and bytes that cannot be read, which are
// the client's to judge. When nothing has to be hidden it appends nothing and hidden is false.
func (h *Hider) AppendVisible(out []byte, place Place, records []byte) (visible []byte, hidden bool) {
	var topic uint64 // hashed when it is needed
	copied, at := 0, 0
	for {
		b, _, err := Next(records[at:])
		if err != nil || b == nil {
			break
		}
		end := at + len(b)
		if needsLook(b) {
			if topic == 0 {
				topic = maphash.Bytes(h.seed, place.Topic)
			}
			key := batchKey{topic, place.Partition, b.Length(), b.BaseOffset(), b.ProducerID(), b.CRC(), b.LeaderEpoch()}
			if instead := h.look(b, key); instead != nil {
				out = append(append(out, records[copied:at]...), instead...)
				copied, hidden = end, true
				h.hidden.Add(1)
			}
		}
		at = end
	}
	if !hidden {
		return out, false
	}
	return append(out, records[copied:]...), true
}

// look finds out about a batch, or remembers.
func (h *Hider) look(b Batch, key batchKey) seen {
	h.mu.Lock()
	known, ok := h.known.Get(key)
	filler, _ := h.fillers.Get(b.Count())
	h.mu.Unlock()
	if ok {
		return known
	}
	if Validate(b) != nil { // a new form of a damaged batch would vouch for the damage
		return nil
	}
	if b.Count() > 0 && bytes.Equal(b.payload(), filler) {
		found := seen(Hide(b))
		h.remember(key, found)
		return found
	}
	coder := <-h.coders
	defer func() { h.coders <- coder }()
	if coder == nil {
		var err error
		if coder, err = NewCoder(CoderConfig{LimitBytes: MinLimitBytes}); err != nil { // of constants: cannot be
			return nil
		}
	}
	visible, hidden, err := coder.AppendVisible(nil, b)
	if err != nil {
		return nil
	}
	var found seen
	if hidden {
		found = bytes.Clone(visible) // without the slack of append
	}
	h.remember(key, found)
	if b.Count() > 0 && len(b.payload()) <= maxFillerBytes && len(found) > 0 && Batch(found).Control() {
		h.mu.Lock()
		h.fillers.Add(b.Count(), bytes.Clone(b.payload()))
		h.mu.Unlock()
	}
	return found
}

func (h *Hider) remember(key batchKey, s seen) {
	if s.bytes() > h.limit/4 { // one batch must not drive out all others
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known.Contains(key) { // somebody looked at the same time
		return
	}
	h.cached.Add(s.bytes())
	h.known.Add(key, s)
	for h.cached.Load() > h.limit {
		h.known.RemoveOldest()
	}
}
