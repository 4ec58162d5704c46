package state

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// This file converts, both ways, what a request says about the job's root.

// Container is a container image as a job's root. The zero value is the node's own
// root.
type Container struct {
	Image         string   `cbor:"1,keyasint,omitempty"` // pinned by a digest
	Mounts        []Mount  `cbor:"2,keyasint,omitempty"`
	WorkDirectory string   `cbor:"3,keyasint,omitempty"`
	Environment   []string `cbor:"4,keyasint,omitempty"` // names of the submitter's variables that the image's do not replace
	Entrypoint    bool     `cbor:"5,keyasint,omitempty"`
	NoHome        bool     `cbor:"6,keyasint,omitempty"`
}

// Mount is something of the user's at another path inside.
type Mount struct {
	Source   string `cbor:"1,keyasint"`
	Target   string `cbor:"2,keyasint"`
	ReadOnly bool   `cbor:"3,keyasint,omitempty"`
}

func (s *Spec) containerFromMessage(asked *pb.JobSpec) {
	if asked.GetImage() == "" {
		return
	}
	o := asked.GetContainer()
	c := &Container{Image: asked.GetImage(), WorkDirectory: o.GetWorkDirectory(), Environment: o.GetEnvironment(), Entrypoint: o.GetEntrypoint(), NoHome: o.GetNoHome()}
	for _, m := range asked.GetMounts() {
		c.Mounts = append(c.Mounts, Mount{m.GetSource(), m.GetTarget(), m.GetReadOnly()})
	}
	s.Container = c
}

func (s *Spec) containerMessage(message *pb.JobSpec) {
	c := s.Container
	if c == nil {
		return
	}
	message.Image = c.Image
	message.Container = &pb.ContainerOptions{WorkDirectory: c.WorkDirectory, Environment: c.Environment, Entrypoint: c.Entrypoint, NoHome: c.NoHome}
	for _, m := range c.Mounts {
		message.Mounts = append(message.Mounts, &pb.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
}
