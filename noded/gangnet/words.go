package gangnet

// The process and its supervisor speak in lines of JSON: one question, one answer.

// Word is the command of the program that is an end: "PROGRAM gang-network".
const Word = "gang-network"

// Question is what the supervisor asks. Exactly one of its fields is set.
type Question struct {
	Begin *Began  `json:"begin,omitempty"`
	Peers []Peer  `json:"peers,omitempty"` // all of them, in place of those before
	Open  *Opened `json:"open,omitempty"`
	Cut   bool    `json:"cut,omitempty"`
	Move  *Peer   `json:"move,omitempty"`  // it has another endpoint now
	Heard bool    `json:"heard,omitempty"` // which peers were heard of
}

// Began is the first question.
type Began struct {
	PrivateKey []byte `json:"private_key"`
	Port       uint16 `json:"port,omitempty"` // 0 = any
	// Userspace: WireGuard in the process, also where the kernel has it.
	Userspace bool `json:"userspace,omitempty"`
}

// Opened is a link that is to be there.
type Opened struct {
	Namespace string `json:"namespace"` // the path of the job's network namespace
	Address   string `json:"address"`   // of the allocation, with the bits of the job's network
	MTU       int    `json:"mtu"`
}

// Answer is what the process says.
type Answer struct {
	Port  uint16 `json:"port,omitempty"` // that was opened, after Begin
	Error string `json:"error,omitempty"`
	// Userspace says, after Begin, why WireGuard is in the process and not the kernel's; "" =
	// it is the kernel's.
	Userspace string `json:"userspace,omitempty"`
	// Heard has the public keys, in hexadecimal, of the peers that were heard of, each with
	// the last time at which keys were agreed on, in seconds since 1970.
	Heard map[string]int64 `json:"heard,omitempty"`
	Deaf  bool             `json:"deaf,omitempty"` // it cannot know at this moment: the link is cut
}
