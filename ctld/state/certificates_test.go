package state

import (
	"bytes"
	"strings"
	"testing"
)

// TestCertificates: what is recorded counts until it is revoked, by serial number or
// holder; a node's that is not recorded never counts; and a copy of the state keeps
// all that.
func TestCertificates(t *testing.T) {
	s := New()
	index := uint64(0)
	apply := func(c Command) *Refusal {
		t.Helper()
		index++
		entry, err := Encode(c, RequestID{}, int64(1000*index))
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.Apply(index, entry)
		if err != nil {
			t.Fatal(err)
		}
		return result.Refused
	}
	one := func(serial, kind, name string) Certificate {
		return Certificate{Serial: serial, Kind: kind, Name: name, FromMS: 1, UntilMS: 1 << 40}
	}
	ended := one("e0", HolderNode, "n9")
	ended.UntilMS = 1
	if refused := apply(RecordCertificates{Certificates: []Certificate{
		one("a1", HolderNode, "n1"), one("a2", HolderNode, "n1"), one("b1", HolderUser, "ann"), one("c1", HolderController, "ann"), ended}}); refused != nil {
		t.Fatal(refused)
	}
	for _, bad := range []Certificate{one("", HolderNode, "n1"), one("A1", HolderNode, "n1"), one("a3", "root", "n1"), one("a3", HolderNode, "")} {
		if apply(RecordCertificates{Certificates: []Certificate{bad}}) == nil {
			t.Errorf("recorded: %+v", bad)
		}
	}
	check := func(state string, good bool, kind, name, serial string) {
		t.Helper()
		if why := s.View().CertificateProblem(kind, name, serial); (why == "") != good {
			t.Errorf("%s: %s:%s with %s: %q", state, kind, name, serial, why)
		}
	}
	check("recorded", true, HolderNode, "n1", "a1")
	check("of another name", false, HolderNode, "n2", "a1")
	check("of another kind", false, HolderUser, "n1", "a1")
	check("not recorded", false, HolderNode, "n1", "a9")
	check("ended", false, HolderNode, "n9", "e0")
	check("a user's that is not recorded", true, HolderUser, "bob", "b9")

	for word, want := range map[string]string{"nobody": "no certificate", "ann": "controller:ann and user:ann", "": "no certificate"} {
		if refused := apply(RevokeCertificates{Names: []string{"a1", word}}); refused == nil || !strings.Contains(refused.Error(), want) {
			t.Errorf("%q: %v", word, refused)
		}
	}
	check("a request that was refused", true, HolderNode, "n1", "a1")
	if refused := apply(RevokeCertificates{Names: []string{"A1", "user:ann"}, User: "root"}); refused != nil {
		t.Fatal(refused)
	}
	apply(RecordCertificates{Certificates: []Certificate{one("a1", HolderNode, "n1")}}) // once more
	var copied bytes.Buffer
	if err := s.View().Persist(&copied); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(&copied)
	if err != nil {
		t.Fatal(err)
	}
	s = restored
	check("revoked", false, HolderNode, "n1", "a1")
	check("the node's other one", true, HolderNode, "n1", "a2")
	check("revoked by holder", false, HolderUser, "ann", "b1")
	check("another holder of the same name", true, HolderController, "ann", "c1")
	if refused := apply(RevokeCertificates{Names: []string{"n1"}}); refused != nil {
		t.Fatal(refused)
	}
	check("all of the node's", false, HolderNode, "n1", "a2")
}
