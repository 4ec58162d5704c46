package api

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// This file decides who somebody is that showed a credential of munge: the number is
// munged's word about who made it, the name is what this host calls that number. It is
// believed as far as the policy believes the address from which it came ([[login]] with
// munge in cluster.toml).

// mungeProof is how a controller that passes a request on says what munged said.
const mungeProof = "munge"

// byCredential is the user who showed a credential.
func (s *core) byCredential(ctx context.Context, from *caller) (*caller, error) {
	// Who may speak for whom is the newest policy's word. What every controller answers for
	// itself it answers by the policy that it has.
	if method, _ := grpc.Method(ctx); !answeredHere[method] {
		if err := s.confirm(ctx); err != nil {
			return nil, err
		}
	}
	by := mungeName(from.munge)
	may := s.cluster.View().Policy().MungeLoginOf(from.munge)
	if may == nil {
		return nil, status.Errorf(codes.PermissionDenied, "%v", errNoMungeLogin(from.munge))
	}
	of := &caller{uid: from.uid, isUser: true, vouchedBy: by, via: from.via}
	account, err := lookupUID(of.uid)
	if err == nil {
		of.user = account.GetUser()
	}
	why := s.notTheirs(may, of, err)
	if why != "" {
		return nil, status.Errorf(codes.PermissionDenied, "a credential of munge from %s names user %.60q (%d): %s", from.munge, of.user, of.uid, why)
	}
	return of, nil
}

// munged is what another controller says of a credential: the number and the address.
func munged(proof string) (uid uint32, from netip.Addr, ok bool) {
	number, address, _ := strings.Cut(proof, " ")
	parsed, err := strconv.ParseUint(number, 10, 32)
	from, addressErr := netip.ParseAddr(address)
	return uint32(parsed), from, err == nil && addressErr == nil && from.Zone() == ""
}

// countsThere is whom a request with a credential counts for that another controller passes
// on; "" = nobody with bounds.
func (s *core) countsThere(md metadata.MD) string {
	_, proof, _ := strings.Cut(first(md, metadataCaller), " ")
	uid, from, ok := munged(proof)
	switch {
	case !ok:
		return strangers
	case !s.cluster.View().Policy().MungeLoginOf(from).MayCount(uid):
		return mungeName(from)
	case uid == 0:
		return ""
	}
	return numbered(uid)
}
