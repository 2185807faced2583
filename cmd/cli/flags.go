package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// An action is what one run of the tool does. Its name is its flag (KIP-1279, wire.md section 5).
type action string

const (
	create   action = "create"
	alter    action = "alter"
	add      action = "add"
	remove   action = "remove"
	pause    action = "pause"
	resume   action = "resume"
	deleteIt action = "delete"
	list     action = "list"
	describe action = "describe"
)

// usage of each action, in the order the help lists them.
var actions = []struct {
	action
	help string
}{
	{create, "Create a mirror from --mirror-config."},
	{alter, "Alter a mirror's configs from --mirror-config."},
	{add, "Add topics to a mirror: start mirroring."},
	{remove, "Remove topics from a mirror (failover: topics become writable)."},
	{pause, "Pause mirroring of topics (topics remain read-only)."},
	{resume, "Resume mirroring of paused topics."},
	{deleteIt, "Delete a mirror whose topics are all stopped."},
	{list, "List the mirrors."},
	{describe, "Describe the mirrors' partitions."},
}

// options are the checked arguments of one run.
type options struct {
	action            action
	bootstrapServers  []string
	commandConfig     string
	mirrorConfig      string
	mirror            string
	topic             string
	replicationFactor int16 // 0: not given
	json              bool
}

const (
	noArguments = "Create cluster mirrors and add topics to them."
	helpText    = "This tool helps to create cluster mirrors and add topics to them."
)

// usageError is a mistake in the arguments; the help is printed behind its text where the reference's tool does so.
type usageError struct {
	text     string
	withHelp bool
}

func (e *usageError) Error() string { return e.text }

var errVersion = errors.New("version asked for")

func parse(args []string, help io.Writer) (*options, error) {
	set := pflag.NewFlagSet("kafka-mirrors", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(io.Discard)
	set.SetInterspersed(true)
	bootstrap := set.String("bootstrap-server", "", "REQUIRED: the proxy to connect to, HOST:PORT,...")
	commandConfig := set.String("command-config", "", "Properties file with Kafka client configs for the connection to the proxy.")
	mirrorConfig := set.String("mirror-config", "", "Properties file with the source cluster's configs.")
	chosen := map[action]*bool{}
	for _, a := range actions {
		chosen[a.action] = set.Bool(string(a.action), false, a.help)
	}
	mirror := set.String("mirror", "", "The mirror's name.")
	topics := set.StringArray("topic", nil, "The topic's name, or a regular expression that matches whole names.")
	factor := set.Int16("replication-factor", 0, "Replication factor of topics that --add creates (default: the destination's).")
	output := set.String("output", "table", "table or json, for --list and --describe.")
	showHelp := set.Bool("help", false, "Print this text.")
	version := set.Bool("version", false, "Print the version.")
	printHelp := func() { fmt.Fprintf(help, "%s", set.FlagUsages()) }

	if len(args) == 0 {
		fmt.Fprintln(help, noArguments)
		printHelp()
		return nil, &usageError{}
	}
	if err := set.Parse(args); err != nil {
		return nil, &usageError{text: err.Error(), withHelp: false}
	}
	if *showHelp {
		fmt.Fprintln(help, helpText)
		printHelp()
		return nil, &usageError{}
	}
	if *version {
		return nil, errVersion
	}
	if set.NArg() > 0 {
		return nil, &usageError{text: fmt.Sprintf("unexpected argument %q", set.Arg(0))}
	}
	o := &options{commandConfig: *commandConfig, mirrorConfig: *mirrorConfig, mirror: *mirror, replicationFactor: *factor, json: *output == "json"}
	given := 0
	for _, a := range actions {
		if *chosen[a.action] {
			o.action = a.action
			given++
		}
	}
	err := o.check(given, *bootstrap, *topics, *output, set.Changed("replication-factor"))
	var usage *usageError
	if errors.As(err, &usage) && usage.withHelp {
		fmt.Fprintln(help, usage.text)
		printHelp()
		return nil, &usageError{}
	}
	return o, err
}

func (o *options) check(actionsGiven int, bootstrap string, topics []string, output string, factorGiven bool) error {
	if actionsGiven != 1 {
		names := make([]string, len(actions))
		for i, a := range actions {
			names[i] = "--" + string(a.action)
		}
		last := len(names) - 1
		return &usageError{withHelp: true, text: "Command must include exactly one action: " + strings.Join(names[:last], ", ") + ", or " + names[last]}
	}
	if bootstrap == "" {
		return &usageError{text: "--bootstrap-server must be specified"}
	}
	for s := range strings.SplitSeq(bootstrap, ",") {
		if s = strings.TrimSpace(s); strings.HasPrefix(s, ":") {
			s = "localhost" + s // ":9094" is this machine
		}
		o.bootstrapServers = append(o.bootstrapServers, s)
	}
	if o.mirror == "" && o.action != list && o.action != describe {
		return &usageError{text: "--mirror must be specified"}
	}
	if o.mirrorConfig == "" && o.action == create {
		return &usageError{text: "--mirror-config must be specified when creating a mirror"}
	}
	if o.mirrorConfig == "" && o.action == alter {
		return &usageError{text: "--mirror-config must be specified when altering a mirror"}
	}
	missing := map[action]string{
		add:    "--topic must be specified when adding topic(s) to a mirror",
		remove: "--topic must be specified when removing topic(s) from a mirror",
		pause:  "--topic must be specified when pausing mirror topic(s)",
		resume: "--topic must be specified when resuming mirror topic(s)",
	}
	if text, needed := missing[o.action]; needed {
		if len(topics) == 0 || topics[0] == "" {
			return &usageError{text: text}
		}
		if len(topics) > 1 {
			return &usageError{text: "--topic must be given once; use a regular expression such as a|b for several topics"}
		}
		o.topic = topics[0]
	}
	if factorGiven && o.replicationFactor < 1 {
		return &usageError{text: fmt.Sprintf("--replication-factor must be at least 1, got %d", o.replicationFactor)}
	}
	if output != "table" && output != "json" {
		return &usageError{text: fmt.Sprintf("--output must be table or json, got %q", output)}
	}
	return nil
}
