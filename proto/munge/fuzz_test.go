package munge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"testing"
)

// decoded is an answer of munged that says who made a credential.
func decoded(code byte, payload []byte) []byte {
	body := []byte{code, 0, 4, 5, 0, 0} // no text; cipher, MAC, compression; no realm
	body = binary.BigEndian.AppendUint32(body, 60)
	body = append(body, 4, 10, 1, 2, 3)
	for _, number := range []uint32{1000, 1001, 4711, 4712, anyID, anyID} {
		body = binary.BigEndian.AppendUint32(body, number)
	}
	return appendData(body, payload)
}

// FuzzAnswers: whatever listens on the socket, its answer is taken apart without harm, and
// one that is cut or longer than munged's names nobody.
func FuzzAnswers(f *testing.F) {
	f.Add(decoded(success, []byte("payload")))
	f.Add(decoded(15, nil))
	f.Add([]byte{})
	f.Add([]byte{0, 255})
	f.Add(appendData([]byte{0, 0}, []byte("MUNGE:AwQ:\x00")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if found, err := unpackDecoded(&reader{left: body}); err == nil {
			if body[0] != success || !bytes.HasSuffix(body, found.Payload) {
				t.Errorf("%x is %+v", body, found)
			}
			if _, err := unpackDecoded(&reader{left: append(bytes.Clone(body), 0)}); err == nil {
				t.Errorf("%x and a byte is an answer", body)
			}
			for end := range body {
				if _, err := unpackDecoded(&reader{left: body[:end]}); err == nil {
					t.Errorf("%x without its end is an answer", body)
				}
			}
		} else if found.UID != 0 || found.Payload != nil {
			t.Errorf("an error, and %+v", found)
		}
		if text, err := unpackEncoded(&reader{left: body}); err == nil && (text == "" || bytes.IndexByte([]byte(text), 0) >= 0) {
			t.Errorf("%x is the credential %q", body, text)
		}
	})
}

// TestRefusal: what a controller or this host says of a credential is found in gRPC's words,
// and whether it is worth trying again.
func TestRefusal(t *testing.T) {
	for _, said := range []struct {
		err   error
		final bool
	}{
		{errors.New(refusesWord + ErrExpired.Error()), true}, {errors.New(refusesWord + `add one with munge = ["10.0.0.1"]`), true}, {errors.New(refusesWord + ErrBusy.Error()), false},
		{errors.New(refusesWord + "on the controller's host " + ErrNoDaemon.Error()), false}, {noDaemon("/x", fs.ErrNotExist), false},
		{errors.New("remote error: tls: certificate required"), true}, {errors.New("EOF"), false},
	} {
		text := fmt.Sprintf("last connection error: connection error: desc = %q", "transport: authentication handshake failed: "+RefusedWord+said.err.Error())
		for _, text := range []string{text, "authentication handshake failed: " + RefusedWord + said.err.Error()} {
			if why, final, found := Refusal(text); why != said.err.Error() || final != said.final || !found {
				t.Errorf("%s: %q, %v, %v", text, why, final, found)
			}
		}
	}
	for _, text := range []string{"", "munge: x", `connection error: desc = "transport: authentication handshake failed: EOF"`, `connection error: desc = "x`} {
		if why, final, found := Refusal(text); found || final || why != "" {
			t.Errorf("%q: %q", text, why)
		}
	}
}

// TestAnswers: each number of munge.h has its error, and a program that is no munged is one
// that cannot be asked.
func TestAnswers(t *testing.T) {
	for code, want := range map[byte]error{8: ErrInvalid, 14: ErrInvalid, 15: ErrExpired, 16: ErrRewound, 17: ErrReplayed, 18: ErrUnauthorized, 1: ErrNoDaemon, 99: ErrNoDaemon} {
		if found, err := unpackDecoded(&reader{left: decoded(code, []byte("x"))}); !errors.Is(err, want) || found.UID != 0 {
			t.Errorf("error %d: %+v, %v", code, found, err)
		}
	}
	found, err := unpackDecoded(&reader{left: decoded(success, []byte("x"))})
	if err != nil || found.UID != 4711 || found.GID != 4712 || string(found.Payload) != "x" {
		t.Errorf("%+v, %v", found, err)
	}
	for name, said := range map[string][]byte{
		"another answer": pack(encodeRequest+1, decoded(success, nil)), "nothing": nil, "of another protocol": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"too long": pack(decodeRequest+1, make([]byte, maxAnswer+1)), "cut": pack(decodeRequest+1, decoded(success, nil))[:20], "empty": pack(decodeRequest+1, nil),
	} {
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, maxCredential))
			_, _ = conn.Write(said)
		}()
		if found, err := Decode(t.Context(), socket, "MUNGE:x:"); !errors.Is(err, ErrNoDaemon) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		_ = listener.Close()
	}
}
