// Package direct moves the bytes of one image from one node to another without a
// controller between them.
//
// Contract: a port is open for one connection, and no longer than the caller waits for
// it. Both ends prove with a key that they made for this connection alone that they are
// those that the controllers joined: each knows the SHA-256 of the other's certificate,
// which came through the controllers' tunnel. Nobody else is answered, and nobody holds
// up the right one for long. What passes is encrypted.
package direct

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Key is one end's proof of who it is.
type Key struct {
	certificate tls.Certificate
	sum         []byte
}

// SumBytes is the length of a certificate's sum.
const SumBytes = sha256.Size

// NewKey makes a key for one connection. It is kept in memory only.
func NewKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for a direct connection: %w", err)
	}
	// The sum of the whole certificate is compared, and nothing that it says.
	about := &x509.Certificate{SerialNumber: big.NewInt(1)}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make a key for a direct connection: %w", err)
	}
	sum := sha256.Sum256(raw)
	return &Key{certificate: tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, sum: sum[:]}, nil
}

// Sum is the SHA-256 of the key's certificate, which the other end has to know.
func (k *Key) Sum() []byte { return k.sum }

// errStranger is the end of a handshake with somebody who has another key.
var errStranger = errors.New("the other end of a direct connection is not the node that the controllers named")

// config is TLS with whoever has the key of a sum.
func (k *Key) config(peer []byte) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{k.certificate},
		ClientAuth:   tls.RequireAnyClientCert,
		// Nobody signed the certificates: the sum is compared below.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 {
				return errStranger
			}
			if sum := sha256.Sum256(state.PeerCertificates[0].Raw); !bytes.Equal(sum[:], peer) {
				return errStranger
			}
			return nil
		},
	}
}

// shakeLimit bounds a handshake: whoever knocks and says nothing is left.
const shakeLimit = 5 * time.Second

// shake proves both ends to each other.
func shake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, shakeLimit)
	defer cancel()
	return conn.HandshakeContext(ctx)
}

// Dial connects to a node that offers it.
func Dial(ctx context.Context, address string, key *Key, peer []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, shakeLimit)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, key.config(peer))
	if err := shake(ctx, conn); err != nil {
		return nil, errors.Join(fmt.Errorf("prove a direct connection to %s: %w", address, err), raw.Close())
	}
	return conn, nil
}
