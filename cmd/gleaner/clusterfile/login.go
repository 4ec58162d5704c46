package clusterfile

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// loginFile says for which users hosts vouch.
type loginFile struct {
	Hosts      string   `toml:"hosts"`
	Munge      []string `toml:"munge"`
	MinUID     uint32   `toml:"min_uid"`
	MaxUID     uint32   `toml:"max_uid"`
	Users      []string `toml:"users"`
	Privileged []string `toml:"privileged"`
}

func (f *clusterFile) fillLogins(policy *pb.Policy) error {
	for i, login := range f.Logins {
		if login.Hosts == "" && len(login.Munge) == 0 {
			return fmt.Errorf("[[login]] number %d of the file needs hosts, a host list such as login[1-2], or munge, a list of networks such as [\"10.1.0.0/16\"]", i+1)
		}
		if _, err := spec.ParseHostList(login.Hosts); err != nil {
			return fmt.Errorf("login %q: hosts: %w", login.Hosts, err)
		}
		policy.Logins = append(policy.Logins, &pb.Login{
			Hosts: login.Hosts, Munge: login.Munge, MinUid: login.MinUID, MaxUid: login.MaxUID, Users: login.Users, Privileged: login.Privileged})
	}
	return nil
}
