package grant

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// dialogue tells a book what happens, and answers what runs.
type dialogue struct {
	t    *testing.T
	book *Book
	job  Job
}

// ask answers where the step runs, or "waits".
func (d *dialogue) ask(ticket uint64, r Request) string {
	d.t.Helper()
	granted, err := d.book.Ask(ticket, &r)
	if err != nil {
		d.t.Fatal(err)
	}
	if granted == nil {
		return "waits"
	}
	return ranks(d.job, granted)
}

func (d *dialogue) leave(ticket uint64) string {
	text := ""
	for _, next := range d.book.Leave(ticket) {
		text += fmt.Sprintf("%d at %s;", next.Ticket, ranks(d.job, next.Grant))
	}
	return text
}

func (d *dialogue) want(got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("got %q, want %q", got, want)
	}
}

func talk(t *testing.T) *dialogue {
	job := three(0)
	return &dialogue{t, NewBook(job), job}
}

// one is a step of one task.
func one(nodes ...string) Request { return Request{Tasks: 1, Least: 1, Most: 1, Nodes: nodes} }

func exact(r Request) Request { r.Exact = true; return r }

// noGPU is a step without GPUs, which others could wait for too.
func noGPU(r Request) Request { r.GPUs.Per = PerNode; return r }

func TestStepsWait(t *testing.T) {
	d := talk(t)
	d.want(d.ask(1, one("n2")), "n2:0")
	d.want(d.ask(2, one("n2")), "waits")
	d.want(d.ask(3, one("n3")), "n3:0") // not for what waits elsewhere
	d.want(d.ask(4, one()), "n1:0")
	d.want(d.ask(5, one()), "waits")
	d.want(d.ask(6, one("n3")), "waits") // step 5 would take n3 too
	d.want(d.leave(1), "2 at n2:0;")
	d.want(d.leave(3), "5 at n3:0;")
	d.want(d.leave(2), "")
	d.want(d.leave(5), "6 at n3:0;")
}

func TestExactStepsShareANode(t *testing.T) {
	d := talk(t)
	for ticket := uint64(1); ticket <= 4; ticket++ {
		d.want(d.ask(ticket, noGPU(exact(one("n1")))), "n1:0")
	}
	d.want(d.ask(5, noGPU(exact(one("n1")))), "waits")
	d.want(d.ask(6, noGPU(Request{Tasks: 2, Least: 1, Most: 1, Nodes: []string{"n1"}})), "waits")
	d.want(d.leave(2), "5 at n1:0;")
	d.want(d.leave(1), "")
	d.want(d.leave(3), "6 at n1:0,1;")
	granted := d.book.running[len(d.book.running)-1]
	d.want(fmt.Sprint(granted.shares[0].CPUs), "[0 2]")
}

func TestGPUsAreWaitedFor(t *testing.T) {
	d := talk(t)
	two := exact(one("n1"))
	two.GPUs = GPUs{Per: PerTask, Count: 2}
	d.want(d.ask(1, two), "n1:0")
	d.want(d.ask(2, two), "n1:0")
	d.want(d.ask(3, two), "waits")
	d.want(d.ask(4, noGPU(exact(one("n1")))), "waits") // behind it
	d.want(d.leave(1), "3 at n1:0;4 at n1:0;")
	d.want(fmt.Sprint(d.book.running[1].shares[0].GPUs), "[0 1]")
}

func TestMemoryIsWaitedFor(t *testing.T) {
	d := talk(t)
	large := noGPU(exact(one("n1")))
	large.Memory = Memory{Per: PerNode, MiB: 350}
	d.want(d.ask(1, large), "n1:0")
	d.want(d.ask(2, noGPU(exact(one("n1")))), "waits") // 100 MiB go with its CPU
	free := noGPU(exact(one("n1")))
	free.Memory.Per = PerNode
	d.want(d.leave(1), "2 at n1:0;")
	d.want(d.ask(3, free), "n1:0")
}

func TestOverlapWaitsForNobody(t *testing.T) {
	d := talk(t)
	over := one("n1")
	over.Overlap = true
	d.want(d.ask(1, one("n1")), "n1:0")
	d.want(d.ask(2, over), "n1:0")
	d.want(d.leave(1), "")
	d.want(d.ask(3, one("n1")), "n1:0") // not counted
}

func TestAStepFromWithinAnother(t *testing.T) {
	d := talk(t)
	d.want(d.ask(1, Request{}), "n1:0 n2:1 n3:2") // step 0 has it all
	d.want(d.ask(2, one("n1")), "waits")
	zero, child := uint32(0), one("n1")
	child.Parent = &zero
	d.want(d.ask(3, child), "n1:0")  // step 1, of what step 0 has
	d.want(d.ask(4, child), "waits") // for its sibling
	d.want(d.leave(3), "4 at n1:0;")
	d.want(d.leave(1), "") // the child has it still
	d.want(d.leave(4), "2 at n1:0;")
}

func TestTheQueueIsBounded(t *testing.T) {
	d := talk(t)
	d.want(d.ask(1, Request{}), "n1:0 n2:1 n3:2")
	for ticket := range uint64(MaxWaiting) {
		d.want(d.ask(ticket+2, Request{}), "waits")
	}
	if _, err := d.book.Ask(1<<32, &Request{}); err == nil {
		t.Error("one more waits")
	}
	d.want(d.leave(1), "2 at n1:0 n2:1 n3:2;")
}

// TestNeverMoreThanTheJobHas plays random steps and looks after each whether two have
// something in common, whether anything is lost at the end, whether nobody starves, and
// whether a book that went through the same again is the same.
func TestNeverMoreThanTheJobHas(t *testing.T) {
	for seed := range uint64(200) {
		first, again := walk(t, seed), walk(t, seed)
		if first != again {
			t.Fatalf("seed %d: %s\n%s", seed, first, again)
		}
	}
}

func walk(t *testing.T, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	job := three(random.IntN(4))
	book := NewBook(job)
	var log []string
	open := map[uint64]bool{}
	start := func(ticket uint64, granted *Grant) {
		text, _ := json.Marshal(granted)
		log = append(log, fmt.Sprintf("%d %s", ticket, text))
		check(t, seed, book)
	}
	end := func(ticket uint64) {
		delete(open, ticket)
		for _, next := range book.Leave(ticket) {
			start(next.Ticket, next.Grant)
		}
		check(t, seed, book)
	}
	for ticket := uint64(1); ticket < 60; ticket++ {
		r := randomRequest(random, book)
		if granted, err := book.Ask(ticket, r); err == nil {
			open[ticket] = true
			if granted != nil {
				start(ticket, granted)
			}
		}
		for random.IntN(3) == 0 && len(open) > 0 {
			tickets := slices.Sorted(func(yield func(uint64) bool) {
				for ticket := range open {
					if !yield(ticket) {
						return
					}
				}
			})
			end(tickets[random.IntN(len(tickets))])
		}
	}
	// What runs ends; then whoever waits must come to run, the oldest first.
	for rounds := 0; len(book.running) > 0; rounds++ {
		if rounds > 200 {
			t.Fatalf("seed %d: steps starve", seed)
		}
		end(book.running[0].ticket)
	}
	if len(book.waiting) > 0 {
		t.Fatalf("seed %d: %d steps wait for nobody", seed, len(book.waiting))
	}
	return fmt.Sprint(log)
}

func randomRequest(random *rand.Rand, book *Book) *Request {
	r := &Request{
		Tasks: random.IntN(5), TasksPerNode: random.IntN(2) * random.IntN(3), CPUsPerTask: random.IntN(3),
		Exact: random.IntN(2) == 0, Overlap: random.IntN(8) == 0, Overcommit: random.IntN(8) == 0,
	}
	if random.IntN(2) == 0 {
		r.Least = 1 + random.IntN(3)
		r.Most = r.Least + random.IntN(2)
	}
	if random.IntN(3) == 0 {
		r.Nodes = []string{fmt.Sprintf("n%d", 1+random.IntN(3))}
	}
	r.GPUs = GPUs{Per: []string{"", PerNode, PerStep, PerTask}[random.IntN(4)], Count: random.IntN(3)}
	r.Memory = Memory{Per: []string{"", PerNode, PerCPU}[random.IntN(3)], MiB: random.Uint64N(200)}
	r.Distribution.Kind = []string{"", Block, Cyclic, Plane}[random.IntN(4)]
	if n := len(book.running); n > 0 && random.IntN(3) == 0 {
		r.Parent = &book.running[random.IntN(n)].step
		parent := *r.Parent
		r.Parent = &parent
	}
	return r
}

// check looks for what two have that none is within the other.
func check(t *testing.T, seed uint64, book *Book) {
	t.Helper()
	memory := make([]uint64, len(book.job.Nodes))
	for i := range book.running {
		a := &book.running[i]
		for n, share := range a.shares {
			node := book.job.Nodes[share.Node]
			if len(share.CPUs) == 0 || len(share.Ranks) == 0 || !slices.IsSorted(share.CPUs) || share.CPUs[len(share.CPUs)-1] >= node.CPUs ||
				len(share.GPUs) > 0 && share.GPUs[len(share.GPUs)-1] >= node.GPUs {
				t.Fatalf("seed %d: %+v of %+v", seed, share, node)
			}
			if !a.counts {
				continue
			}
			memory[share.Node] += a.outside(book, n)
			for j := range i {
				b := &book.running[j]
				if !b.counts || book.within(a.step, &b.step) || book.within(b.step, &a.step) {
					continue
				}
				for _, other := range b.shares {
					if other.Node == share.Node && (len(without(share.CPUs, other.CPUs)) < len(share.CPUs) || len(without(share.GPUs, other.GPUs)) < len(share.GPUs)) {
						t.Fatalf("seed %d: %+v and %+v", seed, share, other)
					}
				}
			}
		}
	}
	for i, used := range memory {
		if used > book.job.Nodes[i].MemoryMiB {
			t.Fatalf("seed %d: %d MiB of %+v", seed, used, book.job.Nodes[i])
		}
	}
}

// FuzzAsk: whatever a client asks for, it gets what is there, waits or is refused.
func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"tasks":3,"least":1,"most":2,"memory":{"per":"cpu","mib":9}}`))
	f.Add([]byte(`{"distribution":{"kind":"plane"},"gpus":{"per":"step","count":4}}`))
	f.Add([]byte(`{"distribution":{"kind":"arbitrary","hosts":["n1","n1"]},"overcommit":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Request
		if json.Unmarshal(text, &r) != nil || len(text) > 4096 {
			return
		}
		for _, n := range []*int{&r.Tasks, &r.Least, &r.Most, &r.TasksPerNode, &r.CPUsPerTask, &r.GPUs.Count, &r.Distribution.Plane} {
			*n = max(min(*n, 1<<30), 0) // as the protocol has it
		}
		r.Memory.MiB = min(r.Memory.MiB, 1<<30)
		book := NewBook(three(0))
		for ticket := range uint64(3) {
			if _, err := book.Ask(ticket, &r); err != nil {
				break
			}
		}
		check(t, 0, book)
	})
}
