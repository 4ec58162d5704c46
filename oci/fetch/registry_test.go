package fetch

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// TestExplained: what a registry answers is said with what would help.
func TestExplained(t *testing.T) {
	r := ref.Ref{Kind: ref.Registry, Name: "lab.example/x", Tag: "1"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&transport.Error{StatusCode: http.StatusUnauthorized}, "docker login lab.example"},
		{&transport.Error{StatusCode: http.StatusForbidden}, "docker login lab.example"},
		{&transport.Error{StatusCode: http.StatusNotFound}, "has no lab.example/x:1"},
		{&transport.Error{StatusCode: http.StatusTooManyRequests}, "try again later, log in for a higher limit"},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, "cannot be reached from here"},
		{errors.New("strange"), "registry lab.example: strange"},
	} {
		if got := explain(r, c.err); got == nil || !strings.Contains(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("%v: %v, want %q", c.err, got, c.want)
		}
	}
	if explain(r, nil) != nil {
		t.Error("no error is explained")
	}
}
