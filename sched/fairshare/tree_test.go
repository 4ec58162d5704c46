package fairshare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tree reads associations as sshare lists them: two blanks deeper for each
// level, users with an @, shares and usage behind ("parent" for no shares of
// its own).
func tree(t testing.TB, text string) (nodes []Node, names []string) {
	t.Helper()
	var path []int
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		node := Node{Parent: -1, User: strings.HasPrefix(fields[0], "@")}
		if depth > 0 {
			node.Parent = path[depth-1]
		}
		if len(fields) > 1 {
			if fields[1] == "parent" {
				node.ShareParent = true
			} else if _, err := fmt.Sscan(fields[1], &node.Shares); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(fields[2], &node.Usage); err != nil {
				t.Fatal(err)
			}
		}
		path = append(path[:depth], len(nodes))
		nodes, names = append(nodes, node), append(names, fields[0])
	}
	return nodes, names
}

// ranks are the users and their ranks, as "@a:3 @b:2".
func ranks(t testing.TB, text string) string {
	nodes, names := tree(t, text)
	standings, _ := Rank(nodes)
	var words []string
	for i := range nodes {
		if nodes[i].User {
			words = append(words, fmt.Sprintf("%s:%d", names[i], standings[i].Rank))
		}
	}
	return strings.Join(words, " ")
}

func TestRank(t *testing.T) {
	for _, test := range []struct{ name, tree, want string }{
		// fair_tree.html, "Overview for End Users": Acct1 is the first common
		// ancestor; Acct16 is over Acct12, and so its user is, though it has
		// used more than the other user by itself.
		{"first common ancestor", `
root
  Acct1 1 100
    Acct12 1 60
      @UserA 1 20
      @other 1 40
    Acct16 1 40
      @UserB 1 40`, "@UserA:2 @other:1 @UserB:3"},
		// The shares and usages of the example of classic_fair_share.html
		// (figure 3), in hundredths of the machine. Level fairshares: D .6/.357
		// = 1.68, A .4/.643 = 0.62; F without bound, E .42; B 1.69, C .45.
		{"figure 3", `
root
  A 40 45
    B 30 20
      @user1 1 20
    C 10 25
      @user2 1 25
      @user3 1 0
  D 60 25
    E 25 25
      @user4 1 25
    F 35 0
      @user5 1 0`, "@user1:3 @user2:1 @user3:2 @user4:4 @user5:5"},
		// "Sibling users with the same Level Fairshare receive the same rank".
		{"users level", `
root
  a 1 10
    @x 1 3
    @y 2 6
    @z 1 1`, "@x:2 @y:2 @z:3"},
		// "A user with the same Level Fairshare as a sibling account will
		// receive the same rank as its highest ranked user".
		{"user level with an account", `
root
  a 1 6
    @low 1 5
    @high 1 1
  @u 1 6
  @v 1 12`, "@low:2 @high:4 @u:4 @v:1"},
		// "Sibling accounts with the same Level Fairshare have their children
		// lists merged before descending": those of b come between those of a.
		{"accounts level", `
root
  a 1 10
    @w 1 1
    @x 1 9
  b 2 20
    @y 1 16
    @z 1 4`, "@w:4 @x:1 @y:2 @z:3"},
		{"three accounts level, users level across them", `
root
  a 1 0
    @w 1 0
  b 1 0
    @x 1 0
  c 1 0
    @y 1 0`, "@w:3 @x:3 @y:3"},
		// A user level with an account whose first sub-account has nobody in it.
		{"nobody in it", `
root
  a 1 5
    empty 1 0
    full 1 5
      @x 1 5
  @u 1 5`, "@x:2 @u:2"},
		{"no shares is last, used or not", `
root
  a 0 0
    @w 1 0
  b 1 99
    @x 1 99
  @none 0 0`, "@w:2 @x:3 @none:2"},
		// sacctmgr(1), Fairshare=parent: the children of p compete as children
		// of root do: b has less of the shares that it then has than x.
		{"account with its parent's shares", `
root
  p parent 30
    @x 1 10
    b 1 20
      @y 1 20
  c 1 5
    @z 1 5`, "@x:2 @y:1 @z:3"},
		{"users with their parent's shares are level", `
root
  a 1 30
    @x parent 20
    @y parent 0
    @z 9 10`, "@x:3 @y:3 @z:1"},
		{"parents above parents", `
root
  p parent 3
    q parent 3
      @x 1 1
      @y 1 2
  @z 1 3`, "@x:3 @y:2 @z:1"},
		{"only the root", "root", ""},
		{"nothing", "", ""},
	} {
		if got := ranks(t, test.tree); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestLevelFairshare has the level fairshares of figure 3, by the formula of
// fair_tree.html: LF = S / U.
func TestLevelFairshare(t *testing.T) {
	nodes, names := tree(t, `
root
  A 40 45
    B 30 20
      @user1 1 20
    C 10 25
      @user2 1 25
      @user3 1 0
  D 60 25
    E 25 25
      @user4 1 25`)
	standings, users := Rank(nodes)
	want := map[string]string{
		"A": "40/100 45/70", "D": "60/100 25/70", "B": "30/40 20/45", "C": "10/40 25/45",
		"@user1": "1/1 20/20", "@user2": "1/2 25/25", "@user3": "1/2 0/25", "E": "25/25 25/25", "@user4": "1/1 25/25",
	}
	for i, name := range names[1:] {
		s := &standings[i+1]
		if got := fmt.Sprintf("%d/%d %d/%d", s.Shares, s.SiblingShares, s.Usage, s.SiblingUsage); got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
		if s.Infinite() != (name == "@user3") {
			t.Errorf("%s: infinite %v", name, s.Infinite())
		}
	}
	if users != 4 {
		t.Errorf("%d users", users)
	}
}

// TestVeryClose: neighbours that a float of 64 bits cannot tell apart, and
// sums that do not fit.
func TestVeryClose(t *testing.T) {
	const large = math.MaxInt64
	if got, want := ranks(t, fmt.Sprintf("root\n  @x 4294967295 %d\n  @y 4294967295 %d\n  @z 4294967295 %d", large, large-1, large)), "@x:2 @y:3 @z:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Across merged accounts, too: x and y have the same of their accounts, z
	// a little less.
	text := fmt.Sprintf("root\n  a 1 %d\n    @x 1 %d\n    @x2 1 %d\n  b 1 %d\n    @y 2 %d\n    @y2 2 %d\n  c 1 %d\n    @z 1 %d\n    @z2 1 %d",
		large-1, large/2, large/2, large-1, large/2, large/2, large-1, large/2-1, large/2+1)
	if got, want := ranks(t, text), "@x:5 @x2:5 @y:5 @y2:5 @z:6 @z2:1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// random makes a tree of any shape; few shares and usages, so that many are
// level.
func random(r *rand.Rand, size int) []Node {
	nodes := []Node{{Parent: -1}}
	few := 1 + r.IntN(5)
	usage := func() int64 {
		switch r.IntN(6) {
		case 0:
			return 0
		case 1:
			return math.MaxInt64 - r.Int64N(3)
		}
		return r.Int64N(int64(few)) * (1 << r.IntN(40))
	}
	for len(nodes) < size {
		parent := r.IntN(len(nodes))
		if nodes[parent].User {
			continue
		}
		nodes = append(nodes, Node{
			Parent: parent, User: r.IntN(2) == 0, Shares: uint32(r.IntN(few)), ShareParent: r.IntN(8) == 0, Usage: usage(),
		})
	}
	return nodes
}

// shuffled is the same tree in another order, parents first, and where each
// node went.
func shuffled(r *rand.Rand, nodes []Node) ([]Node, []int) {
	to := make([]int, len(nodes))
	out := []Node{nodes[0]}
	left := make([]int, 0, len(nodes))
	for i := range nodes[1:] {
		left = append(left, i+1)
	}
	for len(left) > 0 {
		at := r.IntN(len(left))
		i := left[at]
		if parent := nodes[i].Parent; parent != 0 && to[parent] == 0 {
			continue // its parent comes first
		}
		left = slices.Delete(left, at, at+1)
		to[i] = len(out)
		moved := nodes[i]
		moved.Parent = to[moved.Parent]
		out = append(out, moved)
	}
	return out, to
}

func checkTree(t *testing.T, r *rand.Rand, nodes []Node) {
	t.Helper()
	standings, users := Rank(nodes)
	if got, want := describe(nodes, standings), describe(nodes, reference(nodes)); got != want {
		t.Fatalf("%+v:\n%s, want\n%s", nodes, got, want)
	}
	other, to := shuffled(r, nodes)
	moved, _ := Rank(other)
	for i := range nodes {
		if moved[to[i]].Rank != standings[i].Rank {
			t.Fatalf("%+v: rank %d in one order, %d in another", nodes, standings[i].Rank, moved[to[i]].Rank)
		}
		if nodes[i].User != (standings[i].Rank > 0) || standings[i].Rank > users {
			t.Fatalf("%+v: rank %d of %d users", nodes[i], standings[i].Rank, users)
		}
	}
	guarantee(t, nodes, standings)
}

// guarantee is what Fair Tree promises: if account a is over its sibling b, all
// users below a are above all below b.
func guarantee(t *testing.T, nodes []Node, standings []Standing) {
	t.Helper()
	lowest, highest := make([]uint32, len(nodes)), make([]uint32, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		if rank := standings[i].Rank; rank > 0 {
			lowest[i], highest[i] = rank, rank
		}
		if up := nodes[i].Parent; up >= 0 && highest[i] > 0 {
			highest[up] = max(highest[up], highest[i])
			if lowest[up] == 0 || lowest[i] < lowest[up] {
				lowest[up] = lowest[i]
			}
		}
	}
	for a := range nodes {
		for b := range nodes {
			account := a > 0 && b > 0 && nodes[a].Parent == nodes[b].Parent && !nodes[a].ShareParent && !nodes[b].ShareParent
			if account && highest[a] > 0 && highest[b] > 0 && Compare(&standings[a], &standings[b]) > 0 && lowest[a] <= highest[b] {
				t.Fatalf("%+v: %d is over %d, but ranks %d of the one and %d of the other", nodes, a, b, lowest[a], highest[b])
			}
		}
	}
}

func describe(nodes []Node, standings []Standing) string {
	var words []string
	for i := range nodes {
		words = append(words, fmt.Sprint(standings[i].Rank))
	}
	return strings.Join(words, " ")
}

func TestRandomTrees(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		checkTree(t, r, random(r, 1+r.IntN(24)))
	}
}

// TestDeepTree: accounts below accounts, as deep as memory goes.
func TestDeepTree(t *testing.T) {
	const depth = 100_000
	nodes := []Node{{Parent: -1}}
	for i := range depth {
		nodes = append(nodes, Node{Parent: i, Shares: 1, Usage: 1})
	}
	nodes = append(nodes, Node{Parent: depth, User: true, Shares: 1, Usage: 1}, Node{Parent: 0, User: true, Shares: 1, Usage: 2})
	standings, users := Rank(nodes)
	if users != 2 || standings[depth+1].Rank != 2 || standings[depth+2].Rank != 1 {
		t.Errorf("%d users, ranks %d and %d", users, standings[depth+1].Rank, standings[depth+2].Rank)
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes := []Node{{Parent: -1}}
		for ; len(data) >= 4 && len(nodes) < 40; data = data[4:] {
			parent := int(data[0]) % len(nodes)
			if nodes[parent].User {
				parent = 0
			}
			nodes = append(nodes, Node{
				Parent: parent, User: data[1]&1 != 0, ShareParent: data[1]&6 == 6,
				Shares: uint32(data[2]), Usage: int64(data[3]) << (data[1] >> 3),
			})
		}
		checkTree(t, rand.New(rand.NewPCG(1, 2)), nodes)
	})
}

func BenchmarkRank(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	nodes := []Node{{Parent: -1}}
	for range 1000 {
		nodes = append(nodes, Node{Parent: r.IntN(len(nodes)), Shares: 1 + r.Uint32N(100), Usage: r.Int64N(1 << 50)})
	}
	for range 10_000 {
		nodes = append(nodes, Node{Parent: 1 + r.IntN(1000), User: true, Shares: 1 + r.Uint32N(100), Usage: r.Int64N(1 << 45)})
	}
	b.ReportAllocs()
	for b.Loop() {
		Rank(nodes)
	}
}
