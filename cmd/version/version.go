// Package version says what was built.
package version

import "runtime/debug"

// release is set by the linker: -X kafka-mirror-proxy/cmd/version.release=1.2.3.
var release = ""

// String is the release, or the commit it was built from.
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return "devel " + s.Value
			}
		}
	}
	return "devel"
}
