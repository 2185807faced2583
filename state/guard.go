package state

import "github.com/twmb/franz-go/pkg/kmsg"

// Guard is the state of mirror.guard=acl for a topic: an ACL on the destination that denies everyone to write to it.
type Guard int8

const (
	GuardNone Guard = 0
	// GuardOurs: the proxy makes the ACL, and removes it at STOPPED.
	GuardOurs Guard = 1
	// GuardFound: an equal ACL was there before; it stays.
	GuardFound Guard = 2
)

// The ACL denies WRITE on the topic of exactly this name, to everyone from everywhere. Super users are above ACLs, and the
// proxy has to be one.
const (
	guardPrincipal = "User:*"
	guardHost      = "*"
)

// GuardCreation is the request that makes the ACL of a topic. One that is there already stays as it is.
func GuardCreation(topic string) *kmsg.CreateACLsRequest {
	r := kmsg.NewPtrCreateACLsRequest()
	acl := kmsg.NewCreateACLsRequestCreation()
	acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	acl.Principal, acl.Host, acl.Operation, acl.PermissionType = guardPrincipal, guardHost, kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeDeny
	r.Creations = append(r.Creations, acl)
	return r
}

// GuardDeletion is the request that removes it.
func GuardDeletion(topic string) *kmsg.DeleteACLsRequest {
	r := kmsg.NewPtrDeleteACLsRequest()
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.StringPtr(topic), kmsg.ACLResourcePatternTypeLiteral
	filter.Principal, filter.Host = kmsg.StringPtr(guardPrincipal), kmsg.StringPtr(guardHost)
	filter.Operation, filter.PermissionType = kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeDeny
	r.Filters = append(r.Filters, filter)
	return r
}

// GuardSearch is the request that finds it.
func GuardSearch(topic string) *kmsg.DescribeACLsRequest {
	r := kmsg.NewPtrDescribeACLsRequest()
	r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.StringPtr(topic), kmsg.ACLResourcePatternTypeLiteral
	r.Principal, r.Host = kmsg.StringPtr(guardPrincipal), kmsg.StringPtr(guardHost)
	r.Operation, r.PermissionType = kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeDeny
	return r
}
