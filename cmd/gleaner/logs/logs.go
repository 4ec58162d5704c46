package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxLast is how much of what came is kept, so that the file is known again.
const maxLast = 4 << 10

// lookEvery is how often a job that waits is looked at. A variable for tests.
var lookEvery = time.Second

// sayAfter is how long something has to be in the way of what is followed before it is
// said: a job that has just started may not have its file yet. A variable for tests.
var sayAfter = 3 * time.Second

// printOutput is glogs.
func printOutput(inv *option.Invocation) error {
	if len(inv.Operands) != 1 {
		return inv.Fail("glogs needs one job: type glogs JOB")
	}
	name := inv.Operands[0]
	if job, number, step := strings.Cut(name, "."); step {
		return inv.Fail("glogs prints the output of the script, and of the steps that have no file of their own: type glogs %s. With --output the file of a step lies where its grun ran, which opened it; gattach %s joins a step that grun --jobid began", console.Quoted(job), console.Quoted(job+"."+number))
	}
	id, err := client.OneJob(name)
	if err != nil {
		return err
	}
	p := &printing{inv: inv, name: name, job: id, read: &pb.ReadOutput{Error: inv.Given(optStderr), Follow: inv.Given(optFollow)}}
	if inv.Given(optTail) {
		lines, err := strconv.ParseUint(inv.Text(optTail), 10, 32)
		if err != nil {
			return inv.Fail("--tail is a number of lines, and not %.40q", inv.Text(optTail))
		}
		number := uint32(lines)
		p.read.Lines = &number
	}
	if p.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer p.client.Close()
	return p.run(inv.Context)
}

// printing is the output of one job, as far as it was printed.
type printing struct {
	inv    *option.Invocation
	client *client.Client
	name   string
	job    *pb.JobId
	read   *pb.ReadOutput // what to ask for next
	from   *pb.Attached   // of the last visit; nil = there was none
	heard  time.Time      // when a controller or a node answered last
	said   string
	// trouble is what is in the way and was perhaps not said yet, and since when.
	trouble string
	since   time.Time
}

func (p *printing) run(ctx context.Context) error {
	// Whether there is such a job, and a controller, is found out as with any question.
	job, err := p.look()
	switch {
	case ctx.Err() != nil:
		return option.Exit(console.Interrupted)
	case err != nil:
		return option.Fail(1, "%s", client.Describe(err))
	case job == nil:
		return option.Fail(1, "Invalid job id specified: there is no job %s, or it is not for you to see", p.name)
	}
	p.heard = time.Now()
	pace, whole := client.RetryPace(), false
	for {
		if p.read.Follow {
			if err := p.awaitStart(ctx); err != nil {
				return err
			}
		}
		begun := time.Now()
		err := p.visit(ctx)
		if whole && !p.read.Follow && status.Code(err) == codes.FailedPrecondition {
			return nil // the job is over, its file was read to the end, and is gone since
		}
		whole = err == nil
		if done, err := p.ends(ctx, err); done {
			return err
		}
		if time.Since(begun) > lookEvery {
			pace = client.RetryPace()
		}
		client.Sleep(ctx, pace)
	}
}

// visit prints what a node sends, to the end of that.
func (p *printing) visit(ctx context.Context) error {
	output, err := session.OpenOutput(ctx, p.client, p.job, p.read)
	if err != nil {
		return err
	}
	defer output.Close()
	p.from = output.From
	counts := true
	for {
		message, err := output.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p.heard, p.said, p.trouble = time.Now(), "", ""
		if from := message.GetOutputFrom(); from != nil {
			counts = !from.GetRenamed()
			p.begin(from)
			continue
		}
		if _, err := p.inv.Stdout.Write(message.GetData()); err != nil {
			return console.Output(err)
		}
		if counts {
			p.read.Had += uint64(len(message.GetData()))
			p.read.Last = append(p.read.Last, message.GetData()...)
			p.read.Last = p.read.Last[max(0, len(p.read.Last)-maxLast):]
		}
	}
}

// begin takes where in the file the data comes from that follows.
func (p *printing) begin(from *pb.OutputFrom) {
	p.read.Lines = nil
	if from.GetAnother() {
		p.say("%s on %s is another file now, or was begun again", format.Printable(p.from.GetPath()), format.Printable(p.from.GetNode()))
	}
	if !from.GetRenamed() && from.GetOffset() != p.read.Had {
		p.read.Had, p.read.Last = from.GetOffset(), nil
	}
}

// ends reports whether a visit was the last one, and how it all ended.
func (p *printing) ends(ctx context.Context, err error) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return true, option.Exit(console.Interrupted)
	case errors.Is(err, console.ErrOutput):
		return true, err
	case err == nil:
		return !p.read.Follow, nil
	}
	switch status.Code(err) {
	case codes.FailedPrecondition:
		if p.read.Follow { // it may be about to begin, or its node come back
			p.sayLater(client.Plain(err))
			return false, nil
		}
	case codes.NotFound, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
	default:
		if p.read.Follow && p.from != nil || time.Since(p.heard) < client.ContactTime {
			p.sayOnce("the connection is lost (%s); trying again", client.Plain(err))
			return false, nil
		}
	}
	return true, option.Fail(1, "%s", client.Describe(err))
}

// awaitStart waits until there is something to follow: until the job runs, or is over. What
// was read of a run to its end is not asked for again.
func (p *printing) awaitStart(ctx context.Context) error {
	for {
		job, err := p.look()
		if err == nil {
			p.heard = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return option.Exit(console.Interrupted)
		case err != nil:
			p.sayOnce("the controllers do not say how job %s is (%s); trying again", p.name, client.Describe(err))
		case job == nil || show.Finished(job):
			p.read.Follow = false
			return nil
		case job.GetState() != pb.JobState_JOB_STATE_PENDING:
			return nil
		case job.GetRestartCount() > 0:
			p.sayOnce("job %s was requeued and waits (%s)", p.name, format.Printable(job.GetReason()))
		default:
			p.sayOnce("job %s waits (%s)", p.name, format.Printable(job.GetReason()))
		}
		client.Pause(ctx, lookEvery)
	}
}

// look is how the job is; nil = there is none.
func (p *printing) look() (*pb.Job, error) {
	targets, err := spec.ParseJobTargets(p.name)
	if err != nil {
		return nil, err
	}
	runs, err := past.All(p.inv.Context, p.inv, p.client, new(show.View), targets[0], false)
	if err != nil {
		return nil, err
	}
	var job *pb.Job
	for _, run := range runs {
		if _, meant := show.JobTargets(targets).Match(run.GetJob()); meant {
			job = run.GetJob()
		}
	}
	return job, nil
}

// sayOnce says what is in the way, until something else is.
func (p *printing) sayOnce(text string, arguments ...any) {
	if line := fmt.Sprintf(text, arguments...); line != p.said {
		p.said = line
		p.say("%s", line)
	}
}

// sayLater says it if it stays in the way.
func (p *printing) sayLater(text string) {
	if text != p.trouble {
		p.trouble, p.since = text, time.Now()
	}
	if time.Since(p.since) >= sayAfter {
		p.sayOnce("%s", text)
	}
}

func (p *printing) say(text string, arguments ...any) {
	if !p.inv.Given(optQuiet) {
		fmt.Fprintf(p.inv.Stderr, "%s: %s\n", p.inv.Command.Program(), fmt.Sprintf(text, arguments...))
	}
}
