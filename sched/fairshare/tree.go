package fairshare

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Node is an association: an account, or a user in an account.
type Node struct {
	// Parent is the position of the account above. It comes before this one;
	// the first node is the root, and has -1.
	Parent int
	User   bool
	Shares uint32 // the claim among siblings
	// ShareParent is Fairshare=parent (sacctmgr(1)). The children of such an
	// account compete with its siblings in its place. Such a user has no shares,
	// and ranks highest in the account, level with others of the kind, so that
	// where all users of an account are so they all have the same rank.
	ShareParent bool
	// Usage is what it and all below it have used, in any unit; not negative.
	Usage int64
}

// Standing is where an association is in the tree.
type Standing struct {
	// Shares and SiblingShares make the normalised shares S, Usage and
	// SiblingUsage the effective usage U: what is its own, and the sum over it
	// and its siblings. All are 0 for the root and for what has ShareParent
	// and is an account.
	Shares, SiblingShares uint64
	Usage, SiblingUsage   uint64
	// Rank is a user's: that of the first is the number of users, and users
	// that are level have the same. It is 0 for an account. The fair-share
	// factor is Rank over the number of users.
	Rank uint32

	level level
	of    int32 // the account among whose children it competes
}

// level is how a level fairshare compares before any arithmetic.
type level uint8

const (
	levelZero   level = iota // no shares
	levelFinite              // shares and usage
	levelInfinite
)

// Infinite says that the level fairshare is without bound: there is no usage.
func (s *Standing) Infinite() bool { return s.level == levelInfinite }

// Rank ranks the users of a tree and returns the standing of each association
// and the number of users.
//
// Level fairshare is S / U. Siblings are visited from the highest to the
// lowest, accounts with all below them at their turn, and users get their
// ranks as they are met, one for each user. Users of the same level have the
// same rank; a user of the same level as an account the rank of its highest
// user; accounts of the same level are visited as one, with the children of
// all. Without usage the level is infinite; without shares it is 0, whatever
// the usage.
func Rank(tree []Node) ([]Standing, uint32) {
	r := ranking{tree: tree, standings: make([]Standing, len(tree))}
	r.attach()
	r.measure()
	if len(tree) > 0 {
		r.visit(r.childrenOf(0), false)
	}
	return r.standings, r.users
}

type ranking struct {
	tree      []Node
	standings []Standing
	below     []uint32 // users at and below each node
	first     []int32  // where in children those of each node begin
	children  []int32
	users     uint32
	next      uint32 // the rank of the next user
	last      uint32 // that of the user before
}

// attach finds the account below which each association competes, and how many
// users are below it.
func (r *ranking) attach() {
	r.below = make([]uint32, len(r.tree))
	for i := range r.tree {
		n := &r.tree[i]
		if i == 0 {
			continue
		}
		r.standings[i].of = int32(n.Parent)
		if parent := &r.tree[n.Parent]; n.Parent > 0 && parent.ShareParent && !parent.User {
			r.standings[i].of = r.standings[n.Parent].of
		}
		if n.User {
			r.below[i]++
			r.users++
		}
	}
	for i := len(r.tree) - 1; i > 0; i-- {
		r.below[r.tree[i].Parent] += r.below[i]
	}
	r.next = r.users
}

// competes reports whether an association has a place among siblings.
func (r *ranking) competes(i int) bool {
	return i > 0 && (r.tree[i].User || !r.tree[i].ShareParent)
}

// measure sums what siblings have, and lists the children of each node.
func (r *ranking) measure() {
	shares, usage := make([]uint64, len(r.tree)), make([]uint64, len(r.tree))
	r.first = make([]int32, len(r.tree)+1)
	for i := range r.tree {
		if !r.competes(i) {
			continue
		}
		n, s := &r.tree[i], &r.standings[i]
		s.Usage = uint64(max(n.Usage, 0))
		if !n.ShareParent {
			s.Shares = uint64(n.Shares)
		}
		shares[s.of] += s.Shares
		sum, carry := bits.Add64(usage[s.of], s.Usage, 0)
		if carry != 0 {
			sum = math.MaxUint64 // common to all siblings, so their order stays right
		}
		usage[s.of] = sum
		if r.below[i] > 0 {
			r.first[s.of+1]++
		}
	}
	for i := range r.tree {
		r.first[i+1] += r.first[i]
	}
	r.children = make([]int32, r.first[len(r.tree)])
	at := slices.Clone(r.first)
	for i := range r.tree {
		if !r.competes(i) {
			continue
		}
		s := &r.standings[i]
		s.SiblingShares, s.SiblingUsage = shares[s.of], usage[s.of]
		switch {
		case r.tree[i].ShareParent:
			s.level = levelInfinite
		case s.Shares == 0:
			s.level = levelZero
		case s.Usage == 0:
			s.level = levelInfinite
		default:
			s.level = levelFinite
		}
		if r.below[i] > 0 {
			r.children[at[s.of]] = int32(i)
			at[s.of]++
		}
	}
}

func (r *ranking) childrenOf(i int32) []int32 { return r.children[r.first[i]:r.first[i+1]] }

// visit ranks the users at and below siblings. level says that the first of
// them is level with the user before it.
func (r *ranking) visit(siblings []int32, level bool) {
	slices.SortFunc(siblings, func(a, b int32) int {
		return cmp.Or(r.compare(b, a), r.usersFirst(a, b), cmp.Compare(a, b))
	})
	for len(siblings) > 0 {
		first := siblings[0]
		same := 1
		for same < len(siblings) && r.compare(first, siblings[same]) == 0 {
			same++
		}
		r.visitSame(siblings[:same], level)
		siblings, level = siblings[same:], false
	}
}

// visitSame ranks siblings of one level, of which the users come first.
func (r *ranking) visitSame(same []int32, level bool) {
	for len(same) > 0 && r.tree[same[0]].User {
		if !level {
			r.last = r.next
		}
		r.standings[same[0]].Rank = r.last
		r.next--
		same, level = same[1:], true
	}
	if len(same) == 1 {
		r.visit(r.childrenOf(same[0]), level)
	} else if len(same) > 1 {
		var merged []int32
		for _, account := range same {
			merged = append(merged, r.childrenOf(account)...)
		}
		r.visit(merged, level)
	}
}

func (r *ranking) usersFirst(a, b int32) int {
	switch {
	case r.tree[a].User == r.tree[b].User:
		return 0
	case r.tree[a].User:
		return -1
	}
	return 1
}

// compare compares two level fairshares.
func (r *ranking) compare(a, b int32) int {
	return Compare(&r.standings[a], &r.standings[b])
}

// Compare compares two level fairshares as the fractions they are: the one of
// more shares for its usage is the higher.
func Compare(a, b *Standing) int {
	if a.level != b.level || a.level != levelFinite {
		return cmp.Compare(a.level, b.level)
	}
	// S / U of each is Shares·SiblingUsage over SiblingShares·Usage.
	if a.of == b.of {
		return compareProducts(a.Shares, b.Usage, b.Shares, a.Usage)
	}
	left := multiply(product(a.Shares, a.SiblingUsage), product(b.SiblingShares, b.Usage))
	right := multiply(product(b.Shares, b.SiblingUsage), product(a.SiblingShares, a.Usage))
	return slices.Compare(left[:], right[:])
}

func compareProducts(a, b, c, d uint64) int {
	left, right := product(a, b), product(c, d)
	return cmp.Or(cmp.Compare(left.high, right.high), cmp.Compare(left.low, right.low))
}

// wide is a number of 128 bits.
type wide struct{ high, low uint64 }

func product(a, b uint64) wide {
	high, low := bits.Mul64(a, b)
	return wide{high, low}
}

// multiply is a·b, the highest word first.
func multiply(a, b wide) [4]uint64 {
	low, crossA, crossB, high := product(a.low, b.low), product(a.high, b.low), product(a.low, b.high), product(a.high, b.high)
	var out [4]uint64
	var carry1, carry2 uint64
	out[3] = low.low
	out[2], carry1 = bits.Add64(low.high, crossA.low, 0)
	out[2], carry2 = bits.Add64(out[2], crossB.low, 0)
	carry := carry1 + carry2
	out[1], carry1 = bits.Add64(high.low, crossA.high, 0)
	out[1], carry2 = bits.Add64(out[1], crossB.high, 0)
	overflow := carry1 + carry2
	out[1], carry1 = bits.Add64(out[1], carry, 0)
	out[0] = high.high + overflow + carry1
	return out
}
