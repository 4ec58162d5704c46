package policy

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Mail says how the leading controller sends mail. See the message.
type Mail struct {
	Program string `cbor:"1,keyasint,omitempty"`
	Server  string `cbor:"2,keyasint,omitempty"`
	From    string `cbor:"3,keyasint,omitempty"`
	Domain  string `cbor:"4,keyasint,omitempty"`
}

func mailFromMessage(m *pb.MailPolicy) *Mail {
	if m == nil {
		return nil
	}
	return &Mail{Program: m.GetProgram(), Server: m.GetServer(), From: m.GetFrom(), Domain: m.GetDomain()}
}

func (m *Mail) message() *pb.MailPolicy {
	if m == nil {
		return nil
	}
	return &pb.MailPolicy{Program: m.Program, Server: m.Server, From: m.From, Domain: m.Domain}
}

// check says what cannot work. nil is no mail.
func (m *Mail) check() error {
	if m == nil {
		return nil
	}
	switch {
	case (m.Program == "") == (m.Server == ""):
		return fmt.Errorf("mail: give program, such as /usr/sbin/sendmail, or server, such as mail.example.org:25, and only one of them")
	case m.Program != "" && (!path.IsAbs(m.Program) || path.Clean(m.Program) != m.Program):
		return fmt.Errorf("mail: program = %.128q must be an absolute path", m.Program)
	case m.Server != "":
		at := strings.LastIndexByte(m.Server, ':')
		number, err := strconv.ParseUint(m.Server[at+1:], 10, 16)
		if err != nil || number == 0 || at < 1 || strings.ContainsAny(m.Server, " \t\r\n") {
			return fmt.Errorf("mail: server = %.128q must be HOST:PORT, as in mail.example.org:25", m.Server)
		}
	}
	if users, err := spec.ParseMailUsers(m.From); m.From != "" && (err != nil || len(users) != 1) {
		return fmt.Errorf("mail: from = %.128q must be one address, as in gleaner@example.org", m.From)
	}
	if _, err := spec.ParseMailUsers("x@" + m.Domain); m.Domain != "" && err != nil {
		return fmt.Errorf("mail: domain = %.128q must be a name such as example.org", m.Domain)
	}
	return nil
}

func (m *Mail) settings() []setting {
	if m == nil {
		m = &Mail{}
	}
	return []setting{{"mail.program", m.Program}, {"mail.server", m.Server}, {"mail.from", m.From}, {"mail.domain", m.Domain}}
}
