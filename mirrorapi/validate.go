package mirrorapi

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
	maxConfigs          = 1000
	maxConfigValueBytes = 32767 // a longer value does not survive in a KIP-1279 cluster (wire.md section 3)
)

// checkConfigs validates a mirror's configs as a whole and returns the form to store, in which secrets are sealed. Errors
// are failures with INVALID_CONFIG that name the key and say what is wrong; no error holds a secret's value.
func (h *Handler) checkConfigs(configs map[string]string) (map[string]string, error) {
	if len(configs) > maxConfigs {
		return nil, failf(mirrormsg.InvalidConfig, "%d configs are more than a mirror can have (%d)", len(configs), maxConfigs)
	}
	stored := make(map[string]string, len(configs))
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		spec, ok := specOf(key)
		if !ok {
			return nil, unknownConfig(key)
		}
		if len(value) > maxConfigValueBytes {
			return nil, invalidConfig(key, fmt.Errorf("its value has %d bytes, more than %d", len(value), maxConfigValueBytes))
		}
		if spec.kind == password {
			sealed, err := h.sealSecret(value)
			if err != nil {
				return nil, invalidConfig(key, err)
			}
			value = sealed
		} else if err := h.checkValue(spec, value); err != nil {
			return nil, invalidConfig(key, err)
		}
		stored[key] = value
	}
	if stored[configBootstrapServers] == "" {
		return nil, failf(mirrormsg.InvalidConfig, "Missing required config %s: where the source cluster is reached",
			configBootstrapServers)
	}
	if err := h.clusters.CheckConfigs(stored); err != nil {
		return nil, failf(mirrormsg.InvalidConfig, "%v", err)
	}
	return stored, nil
}

func unknownConfig(key string) error {
	return failf(mirrormsg.InvalidConfig, "Unknown mirror configuration: %s", key)
}

func invalidConfig(key string, err error) error {
	return failf(mirrormsg.InvalidConfig, "Invalid value for mirror configuration %s: %v", key, err)
}

// sealSecret returns what to store for a password config: a reference as it is, what is sealed already as it is, anything
// else sealed.
func (h *Handler) sealSecret(value string) (string, error) {
	if value == "" || h.secrets.IsReference(value) || h.secrets.IsSealed(value) {
		return value, nil
	}
	sealed, err := h.secrets.Seal(value)
	if errors.Is(err, ErrNoSecretKey) {
		return "", errors.New("it is a secret, and the proxy has no key to store it with: give the proxy a secret key, " +
			"or give a reference, ${env:NAME} or ${file:/path:key}, that the proxy's configuration allows")
	}
	if err != nil {
		return "", errors.New("the secret could not be sealed")
	}
	return sealed, nil
}

func (h *Handler) checkValue(spec configSpec, value string) error {
	if h.secrets.IsReference(value) && (spec.kind == anyString || spec.kind == bootstrapList) {
		return nil // what it stands for is known when a connection is made
	}
	switch spec.kind {
	case bootstrapList:
		return checkBootstrap(value)
	case choice:
		return spec.checkChoice(value)
	case boolean:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is neither true nor false", value)
		}
	case number:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < spec.min || n > spec.max {
			return fmt.Errorf("%q is not a number from %d to %d", value, spec.min, spec.max)
		}
	case regexList, topicPatternList:
		for _, item := range splitList(value) {
			if _, err := compilePattern(item); err != nil {
				return err
			}
		}
	case aclRules:
		for _, rule := range splitList(value) {
			if err := checkACLRule(rule); err != nil {
				return err
			}
		}
	case anyString, anyList, password:
	}
	return nil
}

func (s configSpec) checkChoice(value string) error {
	if !slices.Contains(s.choices, value) {
		return fmt.Errorf("%q is not one of %s", value, strings.Join(s.choices, ", "))
	}
	if slices.Contains(s.refused, value) {
		return fmt.Errorf("%q is not supported by this version", value)
	}
	return nil
}

// splitList splits a config of type list as Kafka does: at commas, blanks around the items dropped. An empty value is the
// empty list.
func splitList(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	items := strings.Split(value, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	return items
}

func checkBootstrap(value string) error {
	servers := splitList(value)
	if len(servers) == 0 {
		return errors.New("it is empty")
	}
	for _, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return fmt.Errorf("%q is not host:port", server)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return fmt.Errorf("%q is not host:port", server)
		}
	}
	return nil
}

// The enumerations of an ACL rule (org.apache.kafka.common.acl and resource), in upper case.
var (
	aclResourceTypes = []string{"ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER",
		"CLUSTER_MIRROR"}
	aclOperations = []string{"ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
		"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
	aclPermissions = []string{"ANY", "DENY", "ALLOW"}
)

const aclAnything = "*"

// checkACLRule checks resourceType;resourceName;operation;permissionType;principal, where a part that is * or missing at
// the end stands for anything, and resourceName and principal are regular expressions.
func checkACLRule(rule string) error {
	parts := strings.Split(rule, ";")
	if len(parts) > 5 {
		return fmt.Errorf("rule %q has %d parts, more than resourceType;resourceName;operation;permissionType;principal",
			rule, len(parts))
	}
	for i, part := range parts {
		if part == aclAnything {
			continue
		}
		var err error
		switch i {
		case 0:
			err = checkEnum("resource type", part, aclResourceTypes)
		case 2:
			err = checkEnum("operation", part, aclOperations)
		case 3:
			err = checkEnum("permission type", part, aclPermissions)
		default:
			_, err = compilePattern(part)
		}
		if err != nil {
			return fmt.Errorf("rule %q: %w", rule, err)
		}
	}
	return nil
}

func checkEnum(what, value string, values []string) error {
	if !slices.Contains(values, strings.ToUpper(value)) {
		return fmt.Errorf("%q is no %s", value, what)
	}
	return nil
}
