package network

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
)

// hostResolver says which name servers the host asks.
const hostResolver = "/etc/resolv.conf"

// maxNameservers is how many the C library uses.
const maxNameservers = 3

// readResolver reads the host's settings; none is an empty one. The stub of systemd
// listens on a loopback address, where the supervisor can ask it.
func readResolver() []byte {
	const most = 64 << 10
	file, err := os.Open(hostResolver)
	if err != nil {
		return nil
	}
	defer file.Close()
	text := make([]byte, most)
	n, _ := file.Read(text)
	return text[:max(n, 0)]
}

// nameservers are those that the host's settings name. Without any, the C library asks
// this machine.
func nameservers(text []byte) (all []netip.AddrPort) {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(words[1]); err == nil && len(all) < maxNameservers {
			all = append(all, netip.AddrPortFrom(address, dnsPort))
		}
	}
	if len(all) == 0 {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort))
	}
	return all
}

// Resolver is /etc/resolv.conf inside: the host's, with the address at which the
// supervisor answers as the only name server.
func Resolver() []byte { return resolver(readResolver()) }

func resolver(text []byte) []byte {
	var out bytes.Buffer
	out.WriteString("# The supervisor of the job asks the node's name servers.\nnameserver " + DNS.String() + "\n")
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "search", "domain", "options":
			out.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return out.Bytes()
}
