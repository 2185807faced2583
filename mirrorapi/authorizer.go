package mirrorapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
	authorizerFindingValid = time.Minute
	// authorizerFailureValid keeps those who waited while the question failed from asking it one after the other.
	authorizerFailureValid = time.Second
	authorizerAskTimeout   = 10 * time.Second
)

// authorizerCheck finds out whether the destination checks rights. The mirror APIs cannot check a client's rights yet, so a
// destination that does must not be changed through them unless the operator says so. Only a cluster that says that it has no authorizer is served:
// not knowing is not a permission.
type authorizerCheck struct {
	client func() *kgo.Client
	clock  func() time.Time
	// trustClients: the operator says that whoever reaches the proxy may steer mirrors.
	trustClients bool

	mu      sync.Mutex
	found   error // nil: there is no authorizer
	validTo time.Time
}

// errAuthorizer is found on a destination that checks rights.
var errAuthorizer = failf(mirrormsg.ClusterAuthorizationFailed,
	"the destination cluster has an authorizer, and this proxy cannot check rights on mirrors yet: "+
		"the mirror APIs are refused to everyone (--trust-clients=true allows them to every client that reaches the proxy)")

// check returns nil when clients may use the mirror APIs: the destination has no authorizer, or the operator trusts all of
// them; CLUSTER_AUTHORIZATION_FAILED when it has one, and a retriable failure when it could not be asked.
func (a *authorizerCheck) check(ctx context.Context) error {
	if a.trustClients {
		return nil
	}
	return a.find(ctx)
}

// find returns errAuthorizer when the destination has an authorizer, nil when it has none. A finding is kept for a minute, a
// failure for a second.
func (a *authorizerCheck) find(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clock().Before(a.validTo) {
		return a.found
	}
	// The question is not this client's alone: others wait for its answer.
	present, err := askForAuthorizer(context.WithoutCancel(ctx), a.client())
	valid := authorizerFindingValid
	switch {
	case err != nil:
		a.found = failf(mirrormsg.CoordinatorNotAvailable,
			"whether the destination cluster has an authorizer could not be found out: %v", err)
		valid = authorizerFailureValid
	case present:
		a.found = errAuthorizer
	default:
		a.found = nil
	}
	a.validTo = a.clock().Add(valid)
	return a.found
}

// askForAuthorizer asks for ACLs, of which the answer matters little: a cluster without an authorizer answers
// SECURITY_DISABLED (KafkaApis, DescribeAcls), any other one with ACLs or with a refusal.
func askForAuthorizer(ctx context.Context, client *kgo.Client) (present bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, authorizerAskTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType = kmsg.ACLResourceTypeCluster
	req.ResourceName = kmsg.StringPtr("kafka-cluster")
	req.ResourcePatternType = kmsg.ACLResourcePatternTypeLiteral
	req.Operation = kmsg.ACLOperationAlter
	req.PermissionType = kmsg.ACLPermissionTypeAllow
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return false, fmt.Errorf("ask the destination for ACLs: %w", err)
	}
	switch resp.ErrorCode {
	case kerr.SecurityDisabled.Code:
		return false, nil
	case 0, kerr.ClusterAuthorizationFailed.Code:
		return true, nil
	default:
		return false, fmt.Errorf("ask the destination for ACLs: %w", brokerError(resp.ErrorCode, resp.ErrorMessage))
	}
}
