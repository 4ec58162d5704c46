package place

import "slices"

// seating counts nodes for groups, each for one of those it can be counted for.
// A node is known by the groups it can be counted for, a bit for each.
type seating struct {
	groups []Group
	seated [][]alike // by group: what is counted for it
	sizes  []uint32  // by group
	empty  uint64    // nodes that are still missing
}

// alike is nodes that can be counted for the same groups.
type alike struct {
	groups uint64
	count  uint32
}

func newSeating(c *Constraint) *seating {
	return &seating{groups: c.Groups, seated: make([][]alike, len(c.Groups)), sizes: make([]uint32, len(c.Groups)), empty: uint64(c.Nodes())}
}

// change counts nodes of one kind more, or less, for a group.
func (s *seating) change(group int, groups uint64, by int32) {
	s.sizes[group] += uint32(by)
	at := slices.IndexFunc(s.seated[group], func(a alike) bool { return a.groups == groups })
	if at < 0 {
		at = len(s.seated[group])
		s.seated[group] = append(s.seated[group], alike{groups: groups})
	}
	s.seated[group][at].count += uint32(by)
}

// add counts one more node, and reports whether that fills a place. Nodes that
// were counted before may be moved to other groups for it (augmenting paths).
func (s *seating) add(groups uint64) bool {
	if s.empty == 0 || groups == 0 {
		return false
	}
	type step struct {
		from  int    // the group that a node is moved from; -1 = it is the new node
		moved uint64 // which
	}
	cameFrom := make([]step, len(s.groups))
	seen, queue := groups, make([]int, 0, len(s.groups))
	for i := range s.groups {
		if groups>>i&1 == 1 {
			cameFrom[i] = step{from: -1, moved: groups}
			queue = append(queue, i)
		}
	}
	for next := 0; next < len(queue); next++ {
		group := queue[next]
		if s.sizes[group] < s.groups[group].Count {
			for to := group; to >= 0; to = cameFrom[to].from {
				way := cameFrom[to]
				s.change(to, way.moved, 1)
				if way.from >= 0 {
					s.change(way.from, way.moved, -1)
				}
			}
			s.empty--
			return true
		}
		for _, there := range s.seated[group] {
			for i := range s.groups {
				if there.count > 0 && there.groups&^seen>>i&1 == 1 {
					seen |= 1 << i
					cameFrom[i] = step{from: group, moved: there.groups}
					queue = append(queue, i)
				}
			}
		}
	}
	return false
}
