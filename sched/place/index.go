package place

import "slices"

// Index is some nodes by their kinds. It narrows the candidates of a request down to few,
// among which Find finds the same as among all: the kinds that may make an offer, and of
// each only the first nodes, since of nodes that are alike those with the lowest index
// come first.
//
// Cost: a look at each kind that has nodes with as many free devices as the request wants
// on one, and at one node of it. On a full cluster that is next to nothing, and on one
// with idle nodes it does not matter how many of these there are.
type Index struct {
	kinds   *Kinds
	members [][]NodeIndex // by kind, ascending
	at      []int32       // by kind with members: its position in byFree
	byFree  [][]int32     // by free devices: the kinds with members
	has     []bool        // by node: it is in the index
	apart   []NodeIndex   // ascending; in the index and to be looked at one by one
	isApart []bool        // by node

	found, sorted []NodeIndex // room for Narrow
	offers        []kindOffer
}

// kindOffer is what each node of a kind offers, or of a kind those on which a job is a
// guest, or those on which it is none.
type kindOffer struct {
	offer
	kind  int32
	guest bool
}

// NewIndex is an index of some nodes, ascending.
func (k *Kinds) NewIndex(nodes []NodeIndex) *Index {
	x := &Index{kinds: k, has: make([]bool, len(k.nodes)), isApart: make([]bool, len(k.nodes))}
	for _, node := range nodes {
		x.has[node] = true
		x.grow(k.of[node])
		x.add(k.of[node], node)
	}
	return x
}

func (x *Index) grow(number int32) {
	for int(number) >= len(x.members) {
		x.members, x.at = append(x.members, nil), append(x.at, -1)
	}
}

func (x *Index) add(number int32, node NodeIndex) {
	list := x.members[number]
	if len(list) == 0 {
		free := int(x.kinds.all[number].devices)
		for free >= len(x.byFree) {
			x.byFree = append(x.byFree, nil)
		}
		x.at[number] = int32(len(x.byFree[free]))
		x.byFree[free] = append(x.byFree[free], number)
	}
	if len(list) == 0 || list[len(list)-1] < node {
		x.members[number] = append(list, node)
		return
	}
	at, _ := slices.BinarySearch(list, node)
	x.members[number] = slices.Insert(list, at, node)
}

func (x *Index) remove(number int32, node NodeIndex) {
	at, _ := slices.BinarySearch(x.members[number], node)
	x.members[number] = slices.Delete(x.members[number], at, at+1)
	if len(x.members[number]) > 0 {
		return
	}
	list := x.byFree[x.kinds.all[number].devices]
	last := list[len(list)-1]
	list[x.at[number]], x.at[last] = last, x.at[number]
	x.byFree[x.kinds.all[number].devices] = list[:len(list)-1]
}

// Changed is a node that is of another kind than before.
type Changed struct {
	node NodeIndex
	old  int32
}

// Change takes note of what is free on a node now. Move then has each index do so.
func (k *Kinds) Change(node NodeIndex) Changed {
	old := k.of[node]
	k.of[node] = k.number(node)
	return Changed{node, old}
}

// Move takes note of a node that has changed.
func (x *Index) Move(c Changed) {
	now := x.kinds.of[c.node]
	if now == c.old || !x.has[c.node] || x.isApart[c.node] {
		return
	}
	x.grow(now)
	x.remove(c.old, c.node)
	x.add(now, c.node)
}

// SetApart has a node be looked at by itself from now on, because less of it may be free
// for a job than the node says.
func (x *Index) SetApart(node NodeIndex) {
	if !x.has[node] || x.isApart[node] {
		return
	}
	x.isApart[node] = true
	x.remove(x.kinds.of[node], node)
	at, _ := slices.BinarySearch(x.apart, node)
	x.apart = slices.Insert(x.apart, at, node)
}

// Narrows reports whether the index knows which candidates a request needs: not where it
// names nodes that must be among them, and not where it matters how nodes lie or whose
// jobs they have.
func (x *Index) Narrows(r *Request) bool {
	wired := len(x.kinds.nodes) > 0 && x.kinds.nodes[0].Wired
	return !wired && !r.Contiguous && !r.ExclusiveUser && len(r.RequiredNodes) == 0 && len(r.Constraint.Groups) == 0 && len(r.Constraint.OneOf) == 0
}

// Narrow is the candidates that a request needs, ascending, and those of them that were
// set apart, of which less may be free than it seems. has says whether one of these has room
// for the request; it may be nil if there are none. Both lists are valid until the next call.
func (x *Index) Narrow(r *Request, has func(NodeIndex) bool) (candidates, apart []NodeIndex) {
	w := newWant(x.kinds.nodes, r)
	out := x.found[:0]
	for _, node := range x.apart {
		if x.kinds.mayOffer(&w, &x.kinds.all[x.kinds.of[node]]) && has(node) {
			out = append(out, node)
		}
	}
	alone := len(out)
	for _, w.model = range x.modelsOf(r) {
		x.offersTo(&w)
		out = x.narrowTo(&w, out)
	}
	x.found = out
	candidates = append(x.sorted[:0], out...)
	x.sorted = candidates
	slices.Sort(candidates)
	return slices.Compact(candidates), out[:alone]
}

// modelsOf are the models that a request may be placed on, and more.
func (x *Index) modelsOf(r *Request) []string {
	if !r.WantsGPUs() || r.Model != "" {
		return []string{r.Model}
	}
	return x.kinds.models[1:]
}

// offersTo notes what each kind offers.
func (x *Index) offersTo(w *want) {
	x.offers = x.offers[:0]
	least := min(w.devicesEach(), uint64(len(x.byFree)))
	for _, numbers := range x.byFree[least:] {
		for _, number := range numbers {
			of := &x.kinds.all[number]
			if !x.kinds.mayOffer(w, of) {
				continue
			}
			x.offerOf(w, number, false)
			if len(w.GuestOn) > 0 && of.mindsGuests() {
				x.offerOf(w, number, true)
			}
		}
	}
}

// offerOf notes what the first node of a kind offers that the request may have.
func (x *Index) offerOf(w *want, number int32, guest bool) {
	for node := range x.each(w, number, guest) {
		if o, is := w.offerOf(node); is {
			x.offers = append(x.offers, kindOffer{o, number, guest})
		}
		return
	}
}

// each are the nodes of a kind that the request may have, and if it matters those on
// which its job is a guest, or is none.
func (x *Index) each(w *want, number int32, guest bool) func(func(NodeIndex) bool) {
	minds := len(w.GuestOn) > 0 && x.kinds.all[number].mindsGuests()
	plain := len(w.ExcludedNodes) == 0 && w.AmongNodes == nil && len(w.Constraint.Each) == 0
	return func(yield func(NodeIndex) bool) {
		for _, node := range x.members[number] {
			n := &w.nodes[node]
			if minds && w.guestOn(n) != guest || !plain && !w.named(n) {
				continue
			}
			if !yield(node) {
				return
			}
		}
	}
}

// narrowTo appends the nodes that Find may choose from the offers of kinds.
func (x *Index) narrowTo(w *want, out []NodeIndex) []NodeIndex {
	if w.low == 1 && !w.MostNodes {
		if best := x.bestOne(w); best >= 0 {
			return x.asGood(w, best, out)
		}
	}
	for i := range x.offers {
		out = x.first(w, &x.offers[i], max(w.high, maxAlike), out)
	}
	return out
}

// bestOne is the offer that fits best of those that hold the whole job on one node; -1 =
// there is none.
func (x *Index) bestOne(w *want) int {
	best, take := -1, w.whole()
	for i := range x.offers {
		if w.holds(&x.offers[i].offer) && (best < 0 || w.fit(&x.offers[i].offer, &x.offers[best].offer, take) < 0) {
			best = i
		}
	}
	return best
}

// asGood appends the first nodes of those that fit as well as the best one, as many as
// may be compared by their links.
func (x *Index) asGood(w *want, best int, out []NodeIndex) []NodeIndex {
	take, like, most := w.whole(), x.offers[best].offer, maxAlike
	if like.breaks(take) || !w.WantsGPUs() {
		most = 1 // their links are not compared
	}
	begin := len(out)
	for i := range x.offers {
		if o := &x.offers[i]; w.holds(&o.offer) && w.fit(&o.offer, &like, take) == 0 {
			out = x.first(w, o, most, out)
		}
	}
	slices.Sort(out[begin:])
	return out[:min(len(out), begin+most)]
}

// first appends the first nodes that make an offer.
func (x *Index) first(w *want, o *kindOffer, most int, out []NodeIndex) []NodeIndex {
	for node := range x.each(w, o.kind, o.guest) {
		if most == 0 {
			break
		}
		out, most = append(out, node), most-1
	}
	return out
}
