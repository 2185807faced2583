package mirrormsg

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Call makes a mirror request a kmsg.Request, so that a kgo client (one with VersionsWithMirrors) can send it.
type Call struct {
	key int16
	Request
}

// Reply makes a mirror response a kmsg.Response.
type Reply struct {
	key int16
	Response
}

// NewCall numbers req as the dialect does.
func NewCall(d *Dialect, req Request) (*Call, error) {
	key, ok := d.Key(req.API())
	if !ok {
		return nil, fmt.Errorf("dialect %s has no %s", d.Name, req.API())
	}
	return &Call{key: key, Request: req}, nil
}

// Do sends req by way of r (a kgo.Client, or one broker of it) and returns the answer, whatever its error code.
func Do[R Response](ctx context.Context, r kmsg.Requestor, d *Dialect, req Request) (R, error) {
	var none R
	call, err := NewCall(d, req)
	if err != nil {
		return none, err
	}
	answer, err := r.Request(ctx, call)
	if err != nil {
		return none, fmt.Errorf("%s: %w", req.API(), err)
	}
	reply, ok := answer.(*Reply)
	if !ok {
		return none, fmt.Errorf("%s: answer is a %T", req.API(), answer)
	}
	response, ok := reply.Response.(R)
	if !ok {
		return none, fmt.Errorf("%s: answer is a %T, not a %T", req.API(), reply.Response, none)
	}
	return response, nil
}

// VersionsWithMirrors returns the newest versions franz-go speaks, extended by the mirror APIs of the seed dialect and the
// two API versions they brought. Give it to kgo.MaxVersions: kgo refuses to send a key it was not told of.
func VersionsWithMirrors() *kversion.Versions {
	versions := kversion.Stable()
	for _, row := range Seed.Keys {
		versions.SetMaxKeyVersion(row.Key, Version)
	}
	versions.SetMaxKeyVersion(int16(kmsg.CreateTopics), CreateTopicsVersion)
	versions.SetMaxKeyVersion(int16(kmsg.FindCoordinator), FindCoordinatorVersion)
	return versions
}

// Key, MaxVersion, SetVersion, GetVersion, IsFlexible and ResponseKind make Call a kmsg.Request. There is one version.
func (c *Call) Key() int16                  { return c.key }
func (*Call) MaxVersion() int16             { return Version }
func (*Call) SetVersion(int16)              {}
func (*Call) GetVersion() int16             { return Version }
func (*Call) IsFlexible() bool              { return true }
func (c *Call) ResponseKind() kmsg.Response { return &Reply{key: c.key, Response: c.NewResponse()} }

// Key, MaxVersion, SetVersion, GetVersion, IsFlexible and RequestKind make Reply a kmsg.Response.
func (r *Reply) Key() int16                { return r.key }
func (*Reply) MaxVersion() int16           { return Version }
func (*Reply) SetVersion(int16)            {}
func (*Reply) GetVersion() int16           { return Version }
func (*Reply) IsFlexible() bool            { return true }
func (r *Reply) RequestKind() kmsg.Request { return &Call{key: r.key, Request: NewRequest(r.API())} }

// Throttle makes Reply a kmsg.ThrottleResponse.
func (r *Reply) Throttle() (int32, bool) { return r.TopLevel().ThrottleTimeMs, true }

// Key, MaxVersion, SetVersion, GetVersion, IsFlexible and ResponseKind make CreateTopicsV8Request a kmsg.Request. SetVersion
// changes nothing: a server that cannot do version 8 must refuse the request, not read it as another version.
func (*CreateTopicsV8Request) Key() int16        { return int16(kmsg.CreateTopics) }
func (*CreateTopicsV8Request) MaxVersion() int16 { return CreateTopicsVersion }
func (*CreateTopicsV8Request) SetVersion(int16)  {}
func (*CreateTopicsV8Request) GetVersion() int16 { return CreateTopicsVersion }
func (*CreateTopicsV8Request) IsFlexible() bool  { return true }
func (*CreateTopicsV8Request) ResponseKind() kmsg.Response {
	r := kmsg.NewPtrCreateTopicsResponse()
	r.Version = stockCreateTopicsVersion
	return r
}

// Key, MaxVersion, SetVersion, GetVersion, IsFlexible and ResponseKind make FindCoordinatorV7Request a kmsg.Request.
// SetVersion changes nothing, as above.
func (*FindCoordinatorV7Request) Key() int16        { return int16(kmsg.FindCoordinator) }
func (*FindCoordinatorV7Request) MaxVersion() int16 { return FindCoordinatorVersion }
func (*FindCoordinatorV7Request) SetVersion(int16)  {}
func (*FindCoordinatorV7Request) GetVersion() int16 { return FindCoordinatorVersion }
func (*FindCoordinatorV7Request) IsFlexible() bool  { return true }
func (*FindCoordinatorV7Request) ResponseKind() kmsg.Response {
	r := kmsg.NewPtrFindCoordinatorResponse()
	r.Version = FindCoordinatorVersion
	return r
}
