package fairshare

import (
	"cmp"
	"math"
	"math/big"
	"slices"
)

// reference ranks in another way: with big fractions, and without descending.
// The level fairshares above a user and its own, from the root down, are its
// key; who has the higher one where two keys first differ is above. So what is
// of one level is merged by itself.
func reference(nodes []Node) []Standing {
	standings := make([]Standing, len(nodes))
	type user struct {
		node int
		key  []*big.Rat // nil is a level without bound
	}
	var users []user
	for i := range nodes {
		if nodes[i].User {
			u := user{node: i}
			for at := i; at > 0; at = above(nodes, at) {
				u.key = append([]*big.Rat{levelOf(nodes, at)}, u.key...)
			}
			users = append(users, u)
		}
	}
	compare := func(a, b user) int { // the higher first; 0 also when one key begins with the other
		for l := range min(len(a.key), len(b.key)) {
			if c := compareLevels(b.key[l], a.key[l]); c != 0 {
				return c
			}
		}
		return 0
	}
	slices.SortFunc(users, func(a, b user) int {
		return cmp.Or(compare(a, b), cmp.Compare(len(a.key), len(b.key)))
	})
	for at, u := range users {
		rank := uint32(len(users) - at)
		// What begins with the key of the user before is all below accounts
		// level with that user, and this one is the first of it.
		if at > 0 && compare(users[at-1], u) == 0 {
			rank = standings[users[at-1].node].Rank
		}
		standings[u.node].Rank = rank
	}
	return standings
}

// above is the account among whose children a node competes.
func above(nodes []Node, at int) int {
	up := nodes[at].Parent
	for up > 0 && nodes[up].ShareParent {
		up = nodes[up].Parent
	}
	return up
}

// levelOf is S / U of a node; nil is without bound.
func levelOf(nodes []Node, at int) *big.Rat {
	if nodes[at].ShareParent {
		return nil
	}
	shares, usage := new(big.Int), new(big.Int)
	for i := range nodes {
		if i == 0 || above(nodes, i) != above(nodes, at) || nodes[i].ShareParent && !nodes[i].User {
			continue
		}
		usage.Add(usage, big.NewInt(nodes[i].Usage))
		if !nodes[i].ShareParent {
			shares.Add(shares, big.NewInt(int64(nodes[i].Shares)))
		}
	}
	if largest := new(big.Int).SetUint64(math.MaxUint64); usage.Cmp(largest) > 0 {
		usage = largest
	}
	switch {
	case nodes[at].Shares == 0:
		return new(big.Rat)
	case nodes[at].Usage == 0:
		return nil
	}
	s := new(big.Rat).SetFrac(big.NewInt(int64(nodes[at].Shares)), shares)
	u := new(big.Rat).SetFrac(big.NewInt(nodes[at].Usage), usage)
	return s.Quo(s, u)
}

func compareLevels(a, b *big.Rat) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Cmp(b)
}
