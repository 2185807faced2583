package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// Clusters gives the Kafka clients. Both clients are shared and stay open; Handler closes neither.
type Clusters interface {
	Destination() *kgo.Client
	// Source returns the client of the mirror's source cluster. It need not have reached the source yet.
	Source(ctx context.Context, m *state.Mirror) (*kgo.Client, error)
	// CheckConfigs says what is wrong with the configs a source client would be made from; the error names the key.
	CheckConfigs(configs map[string]string) error
}

// Barrier waits until no produce that was let through before the call is still on its way to a broker.
type Barrier interface {
	Barrier(ctx context.Context) error
}

// Secrets protects the values of password configs before they are stored.
type Secrets interface {
	// Seal returns the form to store. It fails when there is no key to seal with.
	Seal(plain string) (string, error)
	IsSealed(value string) bool
	// IsReference tells a value that names a secret (${env:NAME}, ${file:/path:key}) from one that is a secret.
	IsReference(value string) bool
}

// Config is what a Handler works with. All fields but Ignored and TrustClients are required.
type Config struct {
	Store    state.Store
	Live     *state.Live
	Clusters Clusters
	Gate     Barrier
	Secrets  Secrets
	// Ignored names the keys of a mirror's configs that are accepted but change nothing here; nil means there are none.
	Ignored func(configs map[string]string) []string
	// Address returns where clients reach the destination broker of this id.
	Address func(nodeID int32) (host string, port int32)
	// TrustClients serves the mirror APIs to every client even where the destination has an authorizer, since rights on
	// mirrors cannot be checked yet.
	TrustClients bool
	Clock        func() time.Time
	Log          zerolog.Logger
}

// Request is a request as the proxy hands it over; its fields are those of proxy.LocalRequest, so that one converts to the
// other.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	Body          []byte // after the request header; valid for the call
	NodeID        int32  // the broker whose listener the client is connected to, -1 for the bootstrap listener
	Client        string // host:port
	Dialect       string
}

// Handler answers the mirror APIs. It is safe for concurrent use.
type Handler struct {
	store      state.Store
	live       *state.Live
	clusters   Clusters
	gate       Barrier
	secrets    Secrets
	ignored    func(map[string]string) []string
	address    func(int32) (string, int32)
	clock      func() time.Time
	log        zerolog.Logger
	authorizer authorizerCheck
	leaders    leaderCache
	underWay   sync.Map // what is claimed
}

// New checks the config and returns the handler.
func New(cfg Config) (*Handler, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("mirror APIs: no store")
	case cfg.Live == nil:
		return nil, errors.New("mirror APIs: no live figures")
	case cfg.Clusters == nil:
		return nil, errors.New("mirror APIs: no clusters")
	case cfg.Gate == nil:
		return nil, errors.New("mirror APIs: no gate")
	case cfg.Secrets == nil:
		return nil, errors.New("mirror APIs: no secrets")
	case cfg.Address == nil:
		return nil, errors.New("mirror APIs: no addresses")
	case cfg.Clock == nil:
		return nil, errors.New("mirror APIs: no clock")
	}
	if cfg.Ignored == nil {
		cfg.Ignored = func(map[string]string) []string { return nil }
	}
	h := &Handler{
		store: cfg.Store, live: cfg.Live, clusters: cfg.Clusters, gate: cfg.Gate, secrets: cfg.Secrets,
		ignored: cfg.Ignored, address: cfg.Address, clock: cfg.Clock, log: cfg.Log,
	}
	h.authorizer = authorizerCheck{client: cfg.Clusters.Destination, clock: cfg.Clock, trustClients: cfg.TrustClients}
	h.leaders = leaderCache{client: cfg.Clusters.Destination, clock: cfg.Clock}
	return h, nil
}

// Handle answers one request with the body of its response (what follows the response header). An error means that the
// request cannot be answered, because it is not what its key says: the connection is to be closed.
func (h *Handler) Handle(ctx context.Context, r Request) ([]byte, error) {
	dialect, ok := mirrormsg.DialectByName(r.Dialect)
	if !ok {
		return nil, fmt.Errorf("mirror APIs: no dialect is named %q", r.Dialect)
	}
	if api, ok := dialect.API(r.Key); ok {
		return h.handleMirrorAPI(ctx, r, api)
	}
	switch kmsg.Key(r.Key) {
	case kmsg.FindCoordinator:
		return h.findCoordinator(ctx, r)
	case kmsg.CreateTopics:
		return h.createTopics(ctx, r)
	case kmsg.DescribeConfigs:
		return h.describeConfigs(ctx, r)
	case kmsg.IncrementalAlterConfigs:
		return h.alterConfigs(ctx, r)
	default:
		return nil, fmt.Errorf("mirror APIs: key %d is not one of dialect %s", r.Key, r.Dialect)
	}
}

func (h *Handler) handleMirrorAPI(ctx context.Context, r Request, api mirrormsg.API) ([]byte, error) {
	if r.Version != mirrormsg.Version {
		return nil, fmt.Errorf("%s: version %d does not exist", api, r.Version)
	}
	req := mirrormsg.NewRequest(api)
	if err := req.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	var resp mirrormsg.Response
	if err := h.admit(ctx); err != nil {
		resp = req.NewResponse()
		setFailure(resp.TopLevel(), err)
	} else {
		resp = h.dispatch(ctx, r, req)
	}
	if top := resp.TopLevel(); top.ErrorCode != mirrormsg.NoError {
		h.log.Info().Stringer("api", api).Str("client", r.Client).Stringer("code", top.ErrorCode).
			Str("message", text(top.ErrorMessage)).Msg("mirror request refused")
	}
	return resp.AppendTo(nil), nil
}

func (h *Handler) dispatch(ctx context.Context, r Request, req mirrormsg.Request) mirrormsg.Response {
	switch req := req.(type) {
	case *mirrormsg.CreateMirrorRequest:
		return h.createMirror(ctx, req)
	case *mirrormsg.TopicsRequest:
		if req.Op == mirrormsg.AddTopicsToMirror {
			return h.addTopics(ctx, req)
		}
		return h.changeTopics(ctx, req)
	case *mirrormsg.LastMirroredOffsetsRequest:
		return h.lastMirroredOffsets(req)
	case *mirrormsg.ListMirrorsRequest:
		return h.listMirrors(req)
	case *mirrormsg.DescribeMirrorsRequest:
		return h.describeMirrors(ctx, r.NodeID, req)
	case *mirrormsg.ReadMirrorStatesRequest:
		return h.readStates(req)
	case *mirrormsg.WriteMirrorStatesRequest:
		return h.writeStates(ctx, req)
	case *mirrormsg.DeleteMirrorRequest:
		return h.deleteMirror(ctx, req)
	default:
		resp := req.NewResponse()
		setFailure(resp.TopLevel(), failf(mirrormsg.UnsupportedVersion, "%s is not served", req.API()))
		return resp
	}
}

// admit says why no mirror request can be served at present: nil when it can. Every answer is wrong before the view has
// been read, and while rights cannot be checked here nobody has any on a cluster that checks them.
func (h *Handler) admit(ctx context.Context) error {
	if err := h.authorizer.check(ctx); err != nil {
		return err
	}
	if !h.store.View().Loaded() {
		return failf(mirrormsg.CoordinatorLoadInProgress, "the state of the mirrors is still being read")
	}
	return nil
}

// claim reserves something for one request, false when another has it: the name of a topic that is added, or whose addition
// is rolled back, so that what is read of its configs and changed is one request's alone; or the state.TopicID of a source
// topic for which a topic is created.
func (h *Handler) claim(what any) bool {
	_, taken := h.underWay.LoadOrStore(what, nil)
	return !taken
}

func (h *Handler) release(what any) { h.underWay.Delete(what) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
