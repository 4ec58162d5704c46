package state

import (
	"crypto/sha256"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Digest is the SHA-256 of a content that jobs share. The zero Digest means
// none.
type Digest [sha256.Size]byte

// Owner is the user a job runs as, in a uid domain. All jobs of that user share
// it, and it is never changed.
type Owner struct {
	UID       uint32   `cbor:"1,keyasint,omitempty"`
	GID       uint32   `cbor:"2,keyasint,omitempty"`
	Groups    []uint32 `cbor:"3,keyasint,omitempty"` // supplementary, including GID
	User      string   `cbor:"4,keyasint,omitempty"`
	Group     string   `cbor:"5,keyasint,omitempty"`
	Home      string   `cbor:"6,keyasint,omitempty"`
	Shell     string   `cbor:"7,keyasint,omitempty"`
	UIDDomain string   `cbor:"8,keyasint,omitempty"` // "" = the cluster's own

	digest Digest
}

// Blob is a script, or an environment: NAME=VALUE, each followed by a zero
// byte. Jobs with the same one share it, and it is never changed.
type Blob struct {
	Digest Digest
	Bytes  []byte
}

// bytes are the blob's bytes; none for a nil blob.
func (b *Blob) bytes() []byte {
	if b == nil {
		return nil
	}
	return b.Bytes
}

// Spec is the part of a request that is often the same for many jobs, with the
// defaults of policy filled in. It is content-addressed: jobs with the same
// spec, and all tasks of an array, share one, and it is never changed. What
// jobs rarely share is in Own, and their contents in Blobs.
type Spec struct {
	Partitions []string `cbor:"2,keyasint,omitempty"` // in order of preference; never empty once stored
	Account    string   `cbor:"3,keyasint,omitempty"`
	QOS        string   `cbor:"4,keyasint,omitempty"`
	WCKey      string   `cbor:"6,keyasint,omitempty"`

	OpenMode     pb.OpenMode `cbor:"18,keyasint,omitempty"`
	ExportOption string      `cbor:"19,keyasint,omitempty"`
	SubmitHost   string      `cbor:"20,keyasint,omitempty"`
	Umask        uint32      `cbor:"21,keyasint,omitempty"`

	MinNodes      uint32       `cbor:"30,keyasint,omitempty"`
	MaxNodes      uint32       `cbor:"31,keyasint,omitempty"`
	Tasks         uint32       `cbor:"32,keyasint,omitempty"`
	TasksPerNode  uint32       `cbor:"33,keyasint,omitempty"`
	CPUsPerTask   uint32       `cbor:"34,keyasint,omitempty"`
	MemoryPerNode uint64       `cbor:"35,keyasint,omitempty"` // bytes
	MemoryPerCPU  uint64       `cbor:"36,keyasint,omitempty"` // bytes; the partition's default filled in
	GPUs          []GPURequest `cbor:"37,keyasint,omitempty"`
	TimeLimitS    uint32       `cbor:"38,keyasint,omitempty"` // the partition's default filled in
	NodeList      string       `cbor:"39,keyasint,omitempty"`
	ExcludeNodes  string       `cbor:"40,keyasint,omitempty"`
	Constraint    string       `cbor:"41,keyasint,omitempty"`
	Exclusive     bool         `cbor:"42,keyasint,omitempty"`
	TimeMinS      uint32       `cbor:"43,keyasint,omitempty"` // the least limit with which it may start; 0 = TimeLimitS

	Requeue    bool           `cbor:"50,keyasint,omitempty"` // may be requeued after a node failure
	Nice       int32          `cbor:"51,keyasint,omitempty"`
	ArrayTasks []ranges.Range `cbor:"52,keyasint,omitempty"` // of the whole array; empty = a plain job
	MaxRunning uint32         `cbor:"53,keyasint,omitempty"` // the array's throttle; 0 = none
	Network    pb.Network     `cbor:"60,keyasint,omitempty"`
	Hold       bool           `cbor:"61,keyasint,omitempty"` // it was submitted held

	CPUsPerGPU              uint32           `cbor:"80,keyasint,omitempty"`
	MemoryPerGPU            uint64           `cbor:"81,keyasint,omitempty"` // bytes
	TasksPerGPU             uint32           `cbor:"82,keyasint,omitempty"`
	Switches                uint32           `cbor:"83,keyasint,omitempty"` // at most so many leaf switches; 0 = any
	SwitchesWaitS           uint32           `cbor:"84,keyasint,omitempty"` // 0 = forever
	ExclusiveUser           bool             `cbor:"85,keyasint,omitempty"` // nodes shared with nobody else's jobs
	Licenses                []policy.License `cbor:"86,keyasint,omitempty"` // ascending by name
	KillOnInvalidDependency bool             `cbor:"87,keyasint,omitempty"`
	AllMemory               bool             `cbor:"88,keyasint,omitempty"` // of its nodes (--mem=0)
	Contiguous              bool             `cbor:"89,keyasint,omitempty"`
	SpreadJob               bool             `cbor:"90,keyasint,omitempty"`
	UseMinNodes             bool             `cbor:"91,keyasint,omitempty"`
	TmpPerNode              uint64           `cbor:"92,keyasint,omitempty"` // bytes of the node's disk (--tmp); 0 = what the node gives by CPUs

	Signal     string     `cbor:"100,keyasint,omitempty"` // as spec.EndSignal writes it; "" = none
	Checkpoint Checkpoint `cbor:"101,keyasint,omitzero"`

	Container *Container `cbor:"200,keyasint,omitempty"` // nil = the node's own root

	Staging []Staging `cbor:"201,keyasint,omitempty"` // in the order in which they are copied

	Reservations []string `cbor:"110,keyasint,omitempty"` // in the order in which they are tried

	MailTypes uint32 `cbor:"120,keyasint,omitempty"` // bits of spec.MailTypes
	MailUser  string `cbor:"121,keyasint,omitempty"` // "" = the owner

	digest Digest
	owner  *Owner
	shape  *Shape // what the scheduler sees of it
}

// IsArray reports whether the spec is of a job array.
func (s *Spec) IsArray() bool { return len(s.ArrayTasks) > 0 }

// GPURequest asks for whole GPUs of one model.
type GPURequest struct {
	Scope  pb.GpuScope `cbor:"1,keyasint,omitempty"`
	Count  uint32      `cbor:"2,keyasint,omitempty"`
	Model  string      `cbor:"3,keyasint,omitempty"` // "" = any one model
	Shares uint32      `cbor:"4,keyasint,omitempty"` // reserved
}
