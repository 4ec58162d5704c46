package clusterfile

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// mailFile says how mail about jobs is sent.
type mailFile struct {
	Program string `toml:"program"`
	Server  string `toml:"server"`
	From    string `toml:"from"`
	Domain  string `toml:"domain"`
}

func (f *mailFile) message() *pb.MailPolicy {
	if f == nil {
		return nil
	}
	return &pb.MailPolicy{Program: f.Program, Server: f.Server, From: f.From, Domain: f.Domain}
}
