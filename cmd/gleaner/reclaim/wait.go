package reclaim

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// lookEvery is how often a controller is asked which guests have left.
	lookEvery = 200 * time.Millisecond
	// reportTime is how long after the deadline a node's report that the hardware is
	// free may still be on its way, also through another controller that has to take
	// over.
	reportTime = 10 * time.Second
)

// guestKey is one guest of one reclaim.
type guestKey struct {
	node string
	job  uint32
	at   int // its place among the guests; two that are hidden have no number
}

// watched is what is known of one node.
type watched struct {
	number uint32 // of the reclaim
	silent bool
	over   bool
	kept   bool
}

// watch returns when all guests have left, or when the deadline is over. The deadline of a
// reclaim is never later than the one that was asked for just now, so that this machine's
// clock needs not be the controllers'.
func (r *run) watch(deadline time.Time) error {
	line := console.NewProgress(r.inv)
	defer line.Clear()
	nodes, said := map[string]*watched{}, map[guestKey]bool{}
	for _, node := range r.nodes {
		nodes[node.Name] = &watched{number: node.GetReclaim().GetNumber()}
	}
	for {
		open := r.look(nodes, said, line)
		if open == 0 {
			break
		}
		if time.Now().After(deadline.Add(reportTime)) {
			line.Clear()
			r.missed(nodes)
			return option.Exit(1)
		}
		line.Show("%d %s to leave %s", open, plural(open, "guest has", "guests have"), spec.FormatHostList(names(r.nodes)))
		client.Pause(r.inv.Context, r.lookEvery())
		if r.inv.Context.Err() != nil {
			return option.Fail(console.Interrupted, "no longer waiting; %s stays reclaimed: gcontrol show node shows which guests have left, grelease lends it again", spec.FormatHostList(names(r.nodes)))
		}
		if err := r.refresh(); err != nil {
			line.Clear()
			return option.Fail(1, "%s is reclaimed, and its node keeps the deadline; whether all guests have left is not known: %s", spec.FormatHostList(names(r.nodes)), client.Describe(err))
		}
	}
	for _, node := range nodes {
		if !node.kept {
			return option.Exit(1)
		}
	}
	return nil
}

// refresh asks for the nodes again. One that is not told of any more keeps its place
// without a reclaim.
func (r *run) refresh() error {
	list := spec.FormatHostList(names(r.nodes))
	found, err := r.server.Nodes(r.inv.Context, list)
	if err != nil {
		if r.inv.Context.Err() != nil {
			return nil // watch says so
		}
		return err
	}
	byName := make(map[string]*pb.Node, len(found))
	for _, node := range found {
		byName[node.Name] = node
	}
	for i, node := range r.nodes {
		if now, known := byName[node.Name]; known {
			r.nodes[i] = now
		} else {
			r.nodes[i] = &pb.Node{Name: node.Name}
		}
	}
	return nil
}

// look tells what is new, and counts the guests that hold hardware.
func (r *run) look(nodes map[string]*watched, said map[guestKey]bool, line *console.Progress) (open int) {
	for _, node := range r.nodes {
		w, reclaim := nodes[node.Name], node.GetReclaim()
		if w.over {
			continue
		}
		if reclaim == nil || reclaim.GetNumber() != w.number {
			line.Clear()
			w.over = true
			r.complain("%s is lent again: somebody has ended the reclaim before all guests had left", node.Name)
			continue
		}
		for i, guest := range reclaim.GetGuests() {
			key := guestKey{node.Name, guest.GetJob(), i}
			if guest.GetFreedMs() == 0 || said[key] {
				continue
			}
			said[key] = true
			line.Clear()
			r.say("%s: %s %s", node.Name, show.GuestText(guest), show.GuestLeft(guest, reclaim))
		}
		progress := show.ReclaimProgressOf(reclaim)
		open += progress.Open
		if progress.Open == 0 {
			line.Clear()
			w.over, w.kept = true, progress.Kept
			r.free(node, progress)
		}
		w.silent = node.GetNotResponding()
	}
	return open
}

// free says that a node is the owner's.
func (r *run) free(node *pb.Node, progress show.ReclaimProgress) {
	promise := "the promise was " + show.PromiseText(progress.PromiseMS)
	if !progress.Kept {
		r.complain("%s of %s is yours after %s, too late: %s", show.Taken(node), node.Name, show.WaitText(progress.FreeMS), promise)
		return
	}
	r.say("%s of %s is yours after %s; %s", show.Taken(node), node.Name, show.WaitText(progress.FreeMS), promise)
}

// missed says who is late.
func (r *run) missed(nodes map[string]*watched) {
	for _, node := range r.nodes {
		w, reclaim := nodes[node.Name], node.GetReclaim()
		if w.over {
			continue
		}
		promise := show.PromiseText(show.ReclaimProgressOf(reclaim).PromiseMS)
		if w.silent {
			r.complain("%s does not respond, and whether its hardware is yours is not known; the promise was %s. On the node, systemctl status gnoded and nvidia-smi tell", node.Name, promise)
			continue
		}
		for _, guest := range reclaim.GetGuests() {
			if guest.GetFreedMs() != 0 {
				continue
			}
			why := ""
			if guest.GetDetail() != "" {
				why = ": " + guest.GetDetail()
			}
			r.complain("%s: %s still holds %d %s and %d %s; the promise was %s%s", node.Name, show.GuestText(guest), guest.GetCpus(), plural(guest.GetCpus(), "CPU", "CPUs"),
				guest.GetGpus(), plural(guest.GetGpus(), "GPU", "GPUs"), promise, why)
		}
	}
}

// say prints a line for humans.
func (r *run) say(words string, arguments ...any) {
	if r.says() {
		fmt.Fprintln(r.inv.Stdout, format.Printable(fmt.Sprintf(words, arguments...)))
	}
}

// complain prints what is wrong.
func (r *run) complain(words string, arguments ...any) {
	fmt.Fprintf(r.inv.Stderr, "%s: error: %s\n", r.inv.Command.Program(), format.Printable(fmt.Sprintf(words, arguments...)))
}

func plural[N int | uint32](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
