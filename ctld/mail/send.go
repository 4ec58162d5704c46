package mail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"os/exec"
	"strings"
	"time"
)

// message is the mail as it is handed over (RFC 5322). Nothing in its head can hold a
// line break: addresses were checked, and the subject is encoded.
func (l *letter) message(from string) []byte {
	var out bytes.Buffer
	head := func(name, value string) { fmt.Fprintf(&out, "%s: %s\r\n", name, value) }
	head("From", from)
	head("To", strings.Join(l.to, ", "))
	head("Subject", mime.QEncoding.Encode("utf-8", l.subject))
	head("Date", time.UnixMilli(l.timeMS).Format(time.RFC1123Z))
	head("Message-ID", "<"+l.id+"@"+from[strings.LastIndexByte(from, '@')+1:]+">")
	head("Auto-Submitted", "auto-generated")
	head("MIME-Version", "1.0")
	head("Content-Type", "text/plain; charset=utf-8")
	head("Content-Transfer-Encoding", "8bit")
	out.WriteString("\r\n")
	out.WriteString(strings.ReplaceAll(l.body, "\n", "\r\n"))
	return out.Bytes()
}

// What becomes of a mail that was not taken. Any other error says that it may be taken at
// the next attempt.
var (
	// errRefused: it never will be.
	errRefused = errors.New("the mail is refused")
	// errAway: none is taken now.
	errAway = errors.New("no mail is taken now")
)

// send hands the mail over. host is the name of this one.
func (l *letter) send(ctx context.Context, host string) error {
	from := cmp.Or(l.settings.From, "gleaner@"+cmp.Or(l.settings.Domain, host, "localhost"))
	message := l.message(from)
	if l.settings.Program != "" {
		return l.byProgram(ctx, bytes.ReplaceAll(message, []byte("\r\n"), []byte("\n")))
	}
	return l.toServer(ctx, host, from, message)
}

// byProgram starts a program as sendmail(8): -i, so that a dot ends nothing, and to whom.
func (l *letter) byProgram(ctx context.Context, message []byte) error {
	command := exec.CommandContext(ctx, l.settings.Program, append([]string{"-i", "--"}, l.to...)...)
	command.Stdin = bytes.NewReader(message)
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	command.Dir = "/"
	command.WaitDelay = time.Second
	var said bounded
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", l.settings.Program, errors.Join(exited(err), ctx.Err()), plain(said.String()))
	}
	return nil
}

// exited says what the end of a program means, by the codes of sysexits.h, which
// sendmail(8) has.
func exited(err error) error {
	const usage, noHost, tempFail = 64, 68, 75
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit), exit.ExitCode() == tempFail: // it did not start
		return errors.Join(errAway, err)
	case exit.ExitCode() >= usage && exit.ExitCode() <= noHost: // wrong data, no such user
		return errors.Join(errRefused, err)
	}
	return err
}

// bounded keeps the beginning of what a program says.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	const most = 1 << 10
	if room := most - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// toServer speaks SMTP (RFC 5321).
func (l *letter) toServer(ctx context.Context, host, from string, message []byte) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.settings.Server)
	if err != nil {
		return errors.Join(errAway, err)
	}
	defer connection.Close()
	if deadline, bounded := ctx.Deadline(); bounded {
		if err := connection.SetDeadline(deadline); err != nil {
			return err
		}
	}
	name, _, _ := net.SplitHostPort(l.settings.Server)
	client, err := smtp.NewClient(connection, name)
	if err != nil {
		return errors.Join(errAway, err)
	}
	if err := client.Hello(cmp.Or(host, "localhost")); err != nil {
		return errors.Join(errAway, err)
	}
	if err := l.transfer(client, from, message); err != nil {
		return answered(err)
	}
	_ = client.Quit() // the mail is the server's by now
	return nil
}

func (l *letter) transfer(client *smtp.Client, from string, message []byte) error {
	if err := client.Mail(from); err != nil {
		return err
	}
	for _, to := range l.to {
		if err := client.Rcpt(to); err != nil {
			return err
		}
	}
	data, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := data.Write(message); err != nil {
		return err
	}
	return data.Close()
}

// answered says what a server's answer means (RFC 5321, 4.2).
func answered(err error) error {
	const shuts, refused = 421, 500
	var said *textproto.Error
	switch {
	case errors.As(err, &said) && said.Code >= refused:
		return errors.Join(errRefused, err)
	case errors.As(err, &said) && said.Code == shuts:
		return errors.Join(errAway, err)
	}
	return err
}
