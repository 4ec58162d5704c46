package state

// Account is a node in the tree of accounts (sacctmgr(1), "SPECIFICATIONS FOR
// ACCOUNTS"). The root account always exists and is called "root". A stored
// record is never changed; the same holds for the records below.
type Account struct {
	Name         string   `cbor:"1,keyasint"`
	Parent       string   `cbor:"2,keyasint,omitempty"` // "" for the root only
	Description  string   `cbor:"3,keyasint,omitempty"`
	Organization string   `cbor:"4,keyasint,omitempty"`
	Coordinators []string `cbor:"5,keyasint,omitempty"` // user names, ascending
}

// DefaultShares is what an association has if no shares were given, as in
// Slurm.
const DefaultShares = 1

// User is a user as accounting knows them.
type User struct {
	Name           string     `cbor:"1,keyasint"`
	DefaultAccount string     `cbor:"2,keyasint,omitempty"`
	Level          AdminLevel `cbor:"3,keyasint,omitempty"`
}

// AdminLevel is what a user may do in addition to what everybody may
// (sacctmgr(1)).
type AdminLevel uint8

// Admin levels. Numbers are persisted: append only.
const (
	NoAdmin       AdminLevel = 0
	Operator      AdminLevel = 1 // sees and changes accounts, users and QOS
	Administrator AdminLevel = 2
)
