package replicate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
)

const (
	expirationConfig = "producer.id.expiration.ms"
	// expirationPause is the least time between two looks at the view.
	expirationPause = 200 * time.Millisecond
	// expirationTimeout bounds asking for it, or changing it.
	expirationTimeout = 10 * time.Second
)

// longestExpiration is the largest value of producer.id.expiration.ms: 24.8 days.
var longestExpiration = strconv.Itoa(math.MaxInt32)

// keepExpiration keeps the destination's cluster-wide producer.id.expiration.ms at its largest value for as long as a
// mirror that asks for it (mirror.produce.raise-producer-expiration) has a topic that is not STOPPED, and gives it its
// own value back then. That value is recorded in the state before it is changed, so that whoever owns the mirrors after a
// crash finds it; each step looks at what the config is now, and may be done twice.
func (t *tenure) keepExpiration(ctx context.Context) {
	changed, cancel := t.cfg.Store.Subscribe()
	defer cancel()
	ticker := time.NewTicker(t.cfg.Settings.ExpirationLook)
	defer ticker.Stop()
	reported, looked := "", false
	var seen []string
	for {
		view := t.cfg.Store.View()
		raising := raisingMirrors(view)
		_, kept := view.KeptBrokerConfig(expirationConfig)
		if !looked || !slices.Equal(raising, seen) {
			var err error
			if len(raising) > 0 || kept {
				err = t.adjustExpiration(ctx, len(raising) > 0)
			}
			reported = t.reportExpiration(seen, raising, reported, err)
			seen, looked = raising, true
		}
		select {
		case <-changed:
			_ = sleep(ctx, expirationPause) // the view changes often; ctx is looked at below
		case <-ticker.C:
			looked = false
		case <-ctx.Done():
			t.reportExpiration(seen, nil, "", nil)
			return
		}
	}
}

// reportExpiration shows at the mirrors that ask for it, and at no others, what is wrong.
func (t *tenure) reportExpiration(before, raising []string, reported string, err error) string {
	text := ""
	if err != nil {
		text = fmt.Sprintf("%s of the destination cannot be raised; mirroring goes on without: %v", expirationConfig, err)
	}
	for _, mirror := range before {
		t.cfg.Live.SetMirrorWarning(mirror, "")
	}
	for _, mirror := range raising {
		t.cfg.Live.SetMirrorWarning(mirror, text)
	}
	if text != "" && text != reported {
		t.log.Warn().Err(err).Strs("mirrors", raising).Msg(expirationConfig + " of the destination cannot be set as the mirrors need it")
	}
	return text
}

// raisingMirrors are the mirrors for which the brokers shall remember producers for long.
func raisingMirrors(view *state.View) []string {
	var names []string
	for _, mirror := range view.Mirrors() {
		if !raisesExpiration(mirror) {
			continue
		}
		for _, topic := range view.TopicsOf(mirror.Name) {
			if view.ReadOnly(topic) {
				names = append(names, mirror.Name)
				break
			}
		}
	}
	return names
}

// adjustExpiration raises the expiration, or gives it its own value back where it is still what it was raised to: if it
// is not, somebody else has set it meanwhile.
func (t *tenure) adjustExpiration(ctx context.Context, raise bool) error {
	ctx, cancel := context.WithTimeout(ctx, expirationTimeout)
	defer cancel()
	current, err := clusterConfig(ctx, t.cfg.Clusters.Destination(), expirationConfig)
	if err != nil {
		return err
	}
	raised := equal(current, &longestExpiration)
	if raise && raised {
		return nil
	}
	previous, _ := t.cfg.Store.View().KeptBrokerConfig(expirationConfig)
	if raise {
		if err = t.cfg.Store.Do(ctx, state.KeepBrokerConfig{Name: expirationConfig, Previous: current}); err == nil {
			err = t.setClusterConfig(ctx, &longestExpiration)
		}
	} else {
		if raised || equal(current, previous) { // the broker that was asked may not know yet that it was raised
			err = t.setClusterConfig(ctx, previous)
		}
		if err == nil {
			err = t.cfg.Store.Do(ctx, state.ForgetBrokerConfig{Name: expirationConfig})
		}
	}
	if err == nil {
		t.log.Info().Bool("raised", raise).Msg(expirationConfig + " of the destination was set")
	}
	return err
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func (t *tenure) setClusterConfig(ctx context.Context, value *string) error {
	if !t.owns() {
		return errors.New("this process does not own the mirrors any more")
	}
	return alterConfigs(ctx, t.cfg.Clusters.Destination(), kmsg.ConfigResourceTypeBroker, "", map[string]*string{expirationConfig: value})
}

// clusterConfig is the cluster-wide value of a dynamic broker config, nil when it is not set.
func clusterConfig(ctx context.Context, client kmsg.Requestor, name string) (*string, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, []string{name}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, r := range answer.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fmt.Errorf("ask for the cluster's %s: %w", name, err)
		}
		for _, config := range r.Configs {
			if config.Name == name && config.Source != kmsg.ConfigSourceDefaultConfig {
				return config.Value, nil
			}
		}
	}
	return nil, nil
}
