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
// destination that does must not be changed through them. Only a cluster that says that it has no authorizer is served:
// not knowing is not a permission.
type authorizerCheck struct {
	client func() *kgo.Client
	clock  func() time.Time

	mu      sync.Mutex
	found   error // nil: there is no authorizer
	validTo time.Time
}

// check returns nil when the destination has no authorizer, CLUSTER_AUTHORIZATION_FAILED when it has one, and a retriable
// failure when it could not be asked. A finding is kept for a minute, a failure for a second.
func (a *authorizerCheck) check(ctx context.Context) error {
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
		a.found = failf(mirrormsg.ClusterAuthorizationFailed,
			"the destination cluster has an authorizer, and this proxy cannot check rights on mirrors yet: "+
				"the mirror APIs are refused to everyone")
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
