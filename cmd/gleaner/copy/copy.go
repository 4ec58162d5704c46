package copy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/filecopy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// place is one of the two operands.
type place struct {
	job  string // "" = on this host
	path string
}

// parsePlace reads JOB:PATH, or a path.
func parsePlace(text string) place {
	job, path, colon := strings.Cut(text, ":")
	if _, err := spec.ParseJobTargets(job); !colon || err != nil || strings.ContainsAny(job, "/, ") {
		return place{path: text}
	}
	if path == "" {
		path = "."
	}
	return place{job: job, path: path}
}

// copyFiles is gcp.
func copyFiles(inv *option.Invocation) error {
	if len(inv.Operands) != 2 {
		return option.Fail(1, "gcp needs a source and a target: type gcp JOB:PATH PATH, or gcp PATH JOB:PATH")
	}
	from, to := parsePlace(inv.Operands[0]), parsePlace(inv.Operands[1])
	switch {
	case from.job == "" && to.job == "":
		return option.Fail(1, "neither %.100s nor %.100s is in a job: write one as JOB:PATH, as in 12:/tmp/x; cp copies on this host", console.Quoted(from.path), console.Quoted(to.path))
	case from.job != "" && to.job != "":
		return option.Fail(1, "both are in a job: copy to this host first")
	case from.path == "" || to.path == "":
		return option.Fail(1, "a path is empty: write . for the directory")
	}
	c := &copying{inv: inv, progress: console.NewProgress(inv)}
	if from.job != "" {
		return c.run(from, step.CopySend, to.path)
	}
	return c.run(to, step.CopyReceive, from.path)
}

// copying is one copy.
type copying struct {
	inv      *option.Invocation
	progress *console.Progress
	shown    time.Time
}

// run opens the session in the job, which sends or receives, and does the opposite here.
func (c *copying) run(there place, word, here string) error {
	job, err := client.OneJob(there.job)
	if err != nil {
		return err
	}
	umask, err := jobspec.FileMask("")
	if err != nil {
		return err
	}
	argv := []string{step.Init, step.CopyWord, word}
	if c.inv.Given(optRecursive) {
		argv = append(argv, step.CopyTree)
	}
	open := &step.Open{Name: uuid.NewString(), Client: uuid.NewString(), Argv: append(argv, there.path), Umask: umask}
	stream, ended := c.begin(job, there.job, open)
	options := filecopy.Options{
		Recursive: c.inv.Given(optRecursive), Umask: fs.FileMode(umask), Progress: c.show,
		Trouble: func(path, why string, ours bool) { c.tell(cmp.Or(path, nameOf(there, here, ours)), why) },
	}
	var sum filecopy.Summary
	if word == step.CopySend {
		sum, err = filecopy.Receive(stream, here, options)
	} else {
		sum, err = filecopy.Send(stream, here, options)
	}
	stream.close()
	c.progress.Clear()
	return c.outcome(sum, err, <-ended)
}

// outcome says how it went: a session that could not begin is the cause of a stream that broke.
func (c *copying) outcome(sum filecopy.Summary, copied, session error) error {
	var failure *option.Failure
	switch {
	case copied == nil && sum.Troubles == 0:
		if !c.inv.Given(optQuiet) {
			fmt.Fprintln(c.inv.Stderr, summary(sum))
		}
		return nil
	case copied == nil:
		return option.Exit(1) // each was told
	case errors.As(session, &failure) && failure.Error() != "":
		return session
	case errors.Is(copied, io.EOF), errors.Is(copied, io.ErrUnexpectedEOF), errors.Is(copied, io.ErrClosedPipe):
		return option.Fail(1, "the copy broke off: the job or its step ended, or it was interrupted; the same command goes on where it stopped")
	}
	return option.Fail(1, "%w", copied)
}

func summary(sum filecopy.Summary) string {
	text := fmt.Sprintf("%d files, %s", sum.Files, show.SizeText(uint64(sum.Bytes)))
	if sum.Files == 1 {
		text = "1 file, " + show.SizeText(uint64(sum.Bytes))
	}
	if there := sum.Bytes - sum.Sent; there > 0 {
		text += fmt.Sprintf(" (%s was there already)", show.SizeText(uint64(there)))
	}
	return text
}

// nameOf is the operand whose trouble it is.
func nameOf(there place, here string, ours bool) string {
	if ours {
		return here
	}
	return there.job + ":" + there.path
}

// tell says what is not copied.
func (c *copying) tell(name, why string) {
	c.progress.Clear()
	fmt.Fprintf(c.inv.Stderr, "%s: %s: %s\n", c.inv.Command.Program(), format.Printable(name), format.Printable(why))
}

// show says how far a file is, a few times a second.
func (c *copying) show(path string, done, size int64) {
	if time.Since(c.shown) < time.Second/5 {
		return
	}
	c.shown = time.Now()
	c.progress.Show("%s %s of %s", path, show.SizeText(uint64(done)), show.SizeText(uint64(size)))
}

// piped is a session's input and output, as one stream.
type piped struct {
	*io.PipeReader // what the session writes
	*io.PipeWriter // what it reads
}

func (p *piped) close() {
	_ = p.PipeWriter.Close()
}

// begin opens a session whose streams are answered.
func (c *copying) begin(job *pb.JobId, name string, open *step.Open) (*piped, <-chan error) {
	output, written := io.Pipe()
	read, input := io.Pipe()
	inner := *c.inv
	inner.Stdin, inner.Stdout = read, written
	ended := make(chan error, 1)
	go func() {
		_, err := session.Begin(&inner, job, name, open, true)
		_ = written.CloseWithError(io.EOF)
		_ = read.CloseWithError(io.ErrClosedPipe)
		ended <- err
	}()
	return &piped{output, input}, ended
}
