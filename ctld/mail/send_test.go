package mail

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// sink is an SMTP server of one connection: it answers to what it must, and keeps the
// lines that it got. An address that holds "nobody" is refused.
func sink(t *testing.T) (address string, got <-chan []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	lines := make(chan []string, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		say := func(text string) { _, _ = connection.Write([]byte(text + "\r\n")) }
		say("220 sink")
		var all []string
		inside := false
		for scan := bufio.NewScanner(connection); scan.Scan(); {
			line := scan.Text()
			all = append(all, line)
			switch {
			case inside && line == ".":
				inside = false
				say("250 taken")
			case inside:
			case line == "DATA":
				inside = true
				say("354 go on")
			case line == "QUIT":
				say("221 bye")
			case strings.Contains(line, "nobody"):
				say("550 there is no nobody")
			default:
				say("250 fine")
			}
		}
		lines <- all
	}()
	return listener.Addr().String(), lines
}

func TestToServer(t *testing.T) {
	address, got := sink(t)
	one := letter{settings: policy.Mail{Server: address, Domain: "example.org"}, to: []string{"ada@example.org", "eve@example.org"},
		subject: "Slurm Job_id=1 Name=ä\nBcc: all@example.org Ended", body: "first\n.\nlast\n"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := one.send(ctx, "here"); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(<-got, "\n") + "\n"
	for _, want := range []string{"EHLO here\n", "MAIL FROM:<gleaner@example.org>", "RCPT TO:<ada@example.org>", "RCPT TO:<eve@example.org>", "first\n..\nlast\n.\nQUIT\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	_, text, _ = strings.Cut(text, "DATA\n")
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if to := message.Header.Get("To"); to != "ada@example.org, eve@example.org" || message.Header.Get("Bcc") != "" || message.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%v", message.Header)
	}
}

func TestServerThatRefusesOrHangs(t *testing.T) {
	address, _ := sink(t)
	one := letter{settings: policy.Mail{Server: address}, to: []string{"nobody"}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := one.send(ctx, "here"); err == nil || !strings.Contains(err.Error(), "no nobody") {
		t.Error(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	one.settings.Server = silent.Addr().String()
	short, cancelShort := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancelShort()
	if err := one.send(short, "here"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestByProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "sendmail")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncat > "+dir+"/mail\nprintf '%s|' \"$@\" > "+dir+"/to\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	one := letter{settings: policy.Mail{Program: program, From: "boss@x.org"}, to: []string{"ada", "eve"}, subject: "s", body: "b\n"}
	if err := one.send(context.Background(), "here"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(dir + "/mail")
	to, _ := os.ReadFile(dir + "/to")
	if string(to) != "-i|--|ada|eve|" || !strings.HasPrefix(string(text), "From: boss@x.org\nTo: ada, eve\nSubject: s\n") || !strings.HasSuffix(string(text), "\n\nb\n") {
		t.Errorf("%q\n%s", to, text)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such user >&2\nexit 67\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := one.send(context.Background(), "here"); err == nil || !strings.Contains(err.Error(), "no such user") {
		t.Error(err)
	}
}
