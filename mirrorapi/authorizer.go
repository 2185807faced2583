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
	authorizerAskTimeout   = 10 * time.Second
)

// authorizerCheck finds out whether the destination checks rights. The mirror APIs cannot check a client's rights yet, so a
// destination that does must not be changed through them. Only a cluster that says that it has no authorizer is served:
// not knowing is not a permission.
type authorizerCheck struct {
	client func() *kgo.Client
	clock  func() time.Time

	mu      sync.Mutex
	found   error // the finding: nil for no authorizer
	validTo time.Time
}

// check returns nil when the destination has no authorizer, CLUSTER_AUTHORIZATION_FAILED when it has one, and a retriable
// failure when it could not be asked. A finding is kept for a minute; a failure to ask is not kept.
func (a *authorizerCheck) check(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if now.Before(a.validTo) {
		return a.found
	}
	present, err := askForAuthorizer(ctx, a.client())
	if err != nil {
		return failf(mirrormsg.CoordinatorNotAvailable,
			"whether the destination cluster has an authorizer could not be found out: %v", err)
	}
	a.found = nil
	if present {
		a.found = failf(mirrormsg.ClusterAuthorizationFailed,
			"the destination cluster has an authorizer, and this proxy cannot check rights on mirrors yet: "+
				"the mirror APIs are refused to everyone")
	}
	a.validTo = now.Add(authorizerFindingValid)
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
