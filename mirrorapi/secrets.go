package mirrorapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	// sealedPrefix begins a sealed value, and no plain one that is accepted; the digit is the version of the sealing.
	sealedPrefix = "$sealed:1:"

	// minSecretKeyBytes keeps out keys that can be guessed.
	minSecretKeyBytes = 16

	sealKeyBytes = 32
)

// referenceForm is a value that is wholly a reference to a secret kept elsewhere: Kafka's config provider syntax.
var referenceForm = regexp.MustCompile(`\A\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^:}]+:[^:}]+)\}\z`)

// ErrNoSecretKey is the error of sealing or opening without a key.
var ErrNoSecretKey = errors.New("the proxy has no key to protect secrets with")

// SecretBox seals the values of password configs with AES-256-GCM. The nonce is a keyed hash of the value, so that equal
// values seal to equal texts: creating a mirror again with the same configs must be seen to be the same. What that gives
// away is only which mirrors have the same password.
type SecretBox struct {
	aead     cipher.AEAD // nil without a key
	nonceKey []byte
}

// NewSecretBox makes a box from the key of the proxy's configuration, of at least 16 bytes. An empty key makes a box that
// seals nothing, in which case only references to secrets can be stored.
func NewSecretBox(key []byte) (*SecretBox, error) {
	if len(key) == 0 {
		return &SecretBox{}, nil
	}
	if len(key) < minSecretKeyBytes {
		return nil, fmt.Errorf("secret key has %d bytes, at least %d are needed", len(key), minSecretKeyBytes)
	}
	sealKey, err := hkdf.Key(sha256.New, key, nil, "kafka-mirror-proxy secret values", sealKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the sealing key: %w", err)
	}
	nonceKey, err := hkdf.Key(sha256.New, key, nil, "kafka-mirror-proxy secret nonces", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the nonce key: %w", err)
	}
	block, err := aes.NewCipher(sealKey)
	if err != nil {
		return nil, fmt.Errorf("make the sealing cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the sealing cipher: %w", err)
	}
	return &SecretBox{aead: aead, nonceKey: nonceKey}, nil
}

// Seal returns the text to store for a secret.
func (b *SecretBox) Seal(plain string) (string, error) {
	if b.aead == nil {
		return "", ErrNoSecretKey
	}
	mac := hmac.New(sha256.New, b.nonceKey)
	mac.Write([]byte(plain))
	nonce := mac.Sum(nil)[:b.aead.NonceSize()]
	return sealedPrefix + base64.RawURLEncoding.EncodeToString(b.aead.Seal(nonce, nonce, []byte(plain), nil)), nil
}

// Open returns the secret of a sealed text. It fails for a text that was sealed with another key, or changed since.
func (b *SecretBox) Open(sealed string) (string, error) {
	if b.aead == nil {
		return "", ErrNoSecretKey
	}
	encoded, ok := strings.CutPrefix(sealed, sealedPrefix)
	if !ok {
		return "", errors.New("open a secret: it is not sealed")
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(raw) < b.aead.NonceSize() {
		return "", errors.New("open a secret: its sealed form is damaged")
	}
	nonce, box := raw[:b.aead.NonceSize()], raw[b.aead.NonceSize():]
	plain, err := b.aead.Open(nil, nonce, box, nil)
	if err != nil {
		return "", errors.New("open a secret: it was sealed with another key, or is damaged")
	}
	return string(plain), nil
}

// IsSealed tells whether value is what Seal returns.
func (*SecretBox) IsSealed(value string) bool { return strings.HasPrefix(value, sealedPrefix) }

// IsReference tells whether value is wholly a reference, ${env:NAME} or ${file:/path:key}.
func (*SecretBox) IsReference(value string) bool { return referenceForm.MatchString(value) }
