package config

import "github.com/magiconair/properties"

// Properties reads Java's properties format. Values are taken as they are: ${...} in them is a reference for whoever
// uses the value.
func Properties(content []byte) (map[string]string, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(content)
	if err != nil {
		return nil, err
	}
	return p.Map(), nil
}
