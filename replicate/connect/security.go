package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func (r *reader) security(s *Settings) {
	protocol := r.get("security.protocol")
	switch protocol {
	case "", "PLAINTEXT":
	case "SSL":
		s.tls = r.tls()
	case "SASL_PLAINTEXT":
		s.mechanism = r.sasl()
	case "SASL_SSL":
		s.tls, s.mechanism = r.tls(), r.sasl()
	default:
		r.fail("security.protocol", "%q is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", protocol)
	}
}

// tls reads the PEM forms of Kafka's stores (KIP-651). Java key stores are not read.
func (r *reader) tls() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, key := range []string{"ssl.truststore.type", "ssl.keystore.type"} {
		if kind := r.get(key); kind != "" && kind != "PEM" {
			r.fail(key, "%q is not supported, only PEM", kind)
		}
	}
	if pem := r.get("ssl.truststore.certificates"); pem != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			r.fail("ssl.truststore.certificates", "holds no PEM certificate")
		}
	}
	chain, key := r.get("ssl.keystore.certificate.chain"), r.get("ssl.keystore.key")
	if chain != "" || key != "" {
		certificate, err := tls.X509KeyPair([]byte(chain), []byte(key))
		if err != nil {
			r.fail("ssl.keystore.key", "does not go with ssl.keystore.certificate.chain: %v", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if algorithm, ok := r.configs["ssl.endpoint.identification.algorithm"]; ok {
		r.used["ssl.endpoint.identification.algorithm"] = true
		switch {
		case algorithm == "":
			withoutHostName(config)
		case !strings.EqualFold(algorithm, "https"):
			r.fail("ssl.endpoint.identification.algorithm", "%q is neither https nor empty", algorithm)
		}
	}
	return config
}

// withoutHostName keeps the check of the certificate chain and drops that of the host name,
// which is what an empty ssl.endpoint.identification.algorithm means.
func withoutHostName(config *tls.Config) {
	roots := config.RootCAs
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server showed no certificate")
		}
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}

func (r *reader) sasl() sasl.Mechanism {
	name := r.get("sasl.mechanism")
	user, password, ok := parseJAAS(r.get("sasl.jaas.config"))
	if !ok {
		r.fail("sasl.jaas.config", `needs username="..." and password="..."`)
	}
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	r.fail("sasl.mechanism", "%q is not supported, only PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", name)
	return nil
}

var jaasOption = regexp.MustCompile(`(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))`)

// parseJAAS finds user and password in a line such as
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
func parseJAAS(line string) (user, password string, ok bool) {
	values := map[string]string{}
	for _, match := range jaasOption.FindAllStringSubmatch(line, -1) {
		value := match[2] + match[3] + match[4] // one of them matched
		values[match[1]] = regexp.MustCompile(`\\(.)`).ReplaceAllString(value, "$1")
	}
	user, hasUser := values["username"]
	password, hasPassword := values["password"]
	return user, password, hasUser && hasPassword
}
