package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// controlCheckpoint is "checkpoint 12,13_4": jobs are saved and continue.
func controlCheckpoint(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("checkpoint")
	}
	return c.save(&pb.SaveJobsRequest{}, words)
}

// controlMigrate is "migrate 12 [n2]": jobs are saved, and resume elsewhere.
func controlMigrate(c *controlRun, words []string) error {
	request := &pb.SaveJobsRequest{Move: true}
	switch len(words) {
	case 0:
		return c.tooFew("migrate")
	case 1:
	case 2:
		request.Node, words = words[1], words[:1]
	default:
		return c.tooMany("migrate")
	}
	return c.save(request, words)
}

// save asks for the images, and waits for what becomes of them unless it is not
// to.
func (c *controlRun) save(like *pb.SaveJobsRequest, words []string) error {
	var requests []*pb.SaveJobsRequest
	err := eachJob(c.inv, words, func(filter *pb.JobFilter, tasks []*pb.ArrayTasks) {
		requests = append(requests, &pb.SaveJobsRequest{
			RequestId: uuid.NewString(), Filter: filter, Tasks: tasks, Move: like.Move, Node: like.Node,
		})
	})
	if err != nil {
		return err
	}
	watch := newSaveWatch(c, like.Move)
	for _, request := range requests {
		answer, err := client.Call(c.inv.Context, c.client, c.client.SaveJobs, request)
		name := requestName(request.GetFilter(), request.GetTasks())
		switch status.Code(err) {
		case codes.OK:
		case codes.NotFound, codes.PermissionDenied, codes.FailedPrecondition, codes.InvalidArgument:
			watch.refuse(name, client.Plain(err))
		default:
			return client.LoadError(c.inv, "slurm_checkpoint error", err)
		}
		for _, result := range answer.GetResults() {
			watch.ordered(result)
		}
	}
	if !c.inv.Given("no-wait") {
		if err := watch.wait(); err != nil {
			return err
		}
	}
	return watch.end()
}

// savedJSON is what became of one job.
type savedJSON struct {
	Job          string `json:"job"`
	Image        uint32 `json:"image,omitempty"`
	Done         bool   `json:"done"` // saved; of a job that is moved: it has resumed
	Error        string `json:"error,omitempty"`
	SavedOn      string `json:"saved_on,omitempty"`
	Store        string `json:"store,omitempty"`
	Bytes        uint64 `json:"bytes,omitempty"`
	WrittenBytes uint64 `json:"written_bytes,omitempty"`
	StandingMs   uint64 `json:"standing_ms,omitempty"`
	PackMs       uint32 `json:"pack_ms,omitempty"`
	GoesOnOn     string `json:"goes_on_on,omitempty"`
	// Of a job that did not move: where it runs on, and the nodes that were tried.
	StaysOn string             `json:"stays_on,omitempty"`
	Tries   []show.MoveTryJSON `json:"tries,omitempty"`
}

// ordered records the answer for one job.
func (w *saveWatch) ordered(result *pb.JobResult) {
	name := spec.FormatJobID(result.GetId())
	if result.Image != 0 {
		w.jobs = append(w.jobs, &savedJob{id: result.GetId(), savedJSON: savedJSON{Job: name, Image: result.Image}})
		return
	}
	w.refuse("job "+name, cmp.Or(result.Error, "it was not ordered"))
}

// refuse says why nothing was ordered.
func (w *saveWatch) refuse(name, why string) {
	w.failed = true
	fmt.Fprintf(w.c.inv.Stderr, "%s: %s\n", name, format.PrintableLines(why))
	w.over = append(w.over, &savedJSON{Job: strings.TrimPrefix(name, "job "), Error: why})
}

// end shows what is to be shown, and is the exit status.
func (w *saveWatch) end() error {
	if w.c.json != show.JSONNone {
		all := slices.Clone(w.over)
		for _, job := range w.jobs {
			all = append(all, &job.savedJSON)
		}
		slices.SortStableFunc(all, func(a, b *savedJSON) int { return cmp.Compare(a.Job, b.Job) })
		out, err := json.MarshalIndent(map[string]any{"jobs": all}, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(w.c.inv.Stdout, string(out))
	} else if w.c.inv.Given("no-wait") {
		for _, job := range w.jobs {
			w.say(job, "image %d is being made; gcontrol show job %s shows the progress", job.Image, job.Job)
		}
	}
	if w.failed {
		return option.Exit(1)
	}
	return nil
}

// say writes a line about a job.
func (w *saveWatch) say(job *savedJob, words string, arguments ...any) {
	if w.c.json != show.JSONNone || w.c.inv.Given("quiet") {
		return
	}
	fmt.Fprintf(w.c.inv.Stdout, "job %s: %s\n", job.Job, format.Printable(fmt.Sprintf(words, arguments...)))
}

// imageText is what there is to say of an image: its size, and what it cost.
func imageText(image *pb.SavedImage) string {
	var out strings.Builder
	out.WriteString(show.SizeText(image.Bytes))
	if image.WrittenBytes > 0 && image.WrittenBytes < image.Bytes {
		out.WriteString(", " + show.SizeText(image.WrittenBytes) + " of it new")
	}
	if image.Store != "" {
		out.WriteString(", in store " + image.Store)
	}
	return out.String()
}
