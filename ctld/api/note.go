package api

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Each request leaves one line: the caller, the method, the request id, the
// result, the jobs it touched, and how long it took. Changes are at level info,
// requests that only read at debug. docs/logs.md has the keys.

// MessageRefused is the message of a refused change: anybody may cause it at
// will, so a log may count it.
const MessageRefused = "request refused"

// maxJobsNoted bounds the jobs named in one line.
const maxJobsNoted = 16

// changing are the methods that change something. A dry run of one does not
// change anything: see changes.
var changing = map[string]bool{
	pb.Controller_Submit_FullMethodName: true, pb.Controller_Cancel_FullMethodName: true, pb.Controller_Control_FullMethodName: true,
	pb.Controller_UpdateJobs_FullMethodName: true, pb.Controller_UpdateNode_FullMethodName: true, pb.Controller_ApplyPolicy_FullMethodName: true,
	pb.Controller_ChangeAccounts_FullMethodName: true, pb.Controller_SaveJobs_FullMethodName: true, pb.Controller_ReclaimNodes_FullMethodName: true, pb.Controller_ReleaseNodes_FullMethodName: true, pb.Controller_SetLending_FullMethodName: true,
	pb.Controller_CreateReservation_FullMethodName: true, pb.Controller_UpdateReservation_FullMethodName: true, pb.Controller_DeleteReservation_FullMethodName: true,
	pb.Controller_RevokeCertificates_FullMethodName: true, pb.Controller_RenewCertificate_FullMethodName: true, pb.Controller_RecordCertificates_FullMethodName: true,
	pb.Controller_AddPeer_FullMethodName: true, pb.Controller_RemovePeer_FullMethodName: true,
	pb.Controller_TransferLeadership_FullMethodName: true, pb.Controller_RestoreSnapshot_FullMethodName: true,
}

func changes(method string, request any) bool {
	if only, ok := request.(interface{ GetDryRun() bool }); ok && only.GetDryRun() {
		return false
	}
	return changing[method]
}

// note gathers what a handler learns about the caller, and where the request
// went.
type note struct {
	from   *caller
	leader string // that it was passed on to; "" = it was answered here

	// For the audit log: what a stream is about, and whether it has its line.
	jobs    []audit.Job
	count   int // of the jobs, if more than are named
	nodes   string
	targets []string
	audited bool
}

// noteTarget notes what a stream is about besides jobs and nodes.
func noteTarget(ctx context.Context, text string) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.targets = append(n.targets, clipped(text))
	}
}

// noteRead notes that a user reads or joins another user's job.
func noteRead(ctx context.Context, job *state.Job) {
	named := audit.Job{Job: strconv.FormatUint(uint64(job.ID), 10), Owner: job.Owner().User, UID: job.Owner().UID}
	if job.HasTask {
		named.Job = fmt.Sprintf("%d_%d", job.Array, job.Task)
	}
	noteReadOf(ctx, named)
}

// notePastRead is noteRead of a job that only history knows.
func notePastRead(ctx context.Context, job *pb.Job) {
	named := audit.Job{Job: strconv.FormatUint(uint64(job.GetId().GetJob()), 10), Owner: job.GetOwner().GetUser(), UID: job.GetOwner().GetUid()}
	if job.GetId().ArrayTask != nil {
		named.Job = fmt.Sprintf("%d_%d", job.GetArrayJobId(), job.GetId().GetArrayTask())
	}
	noteReadOf(ctx, named)
}

func noteReadOf(ctx context.Context, named audit.Job) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	if len(n.jobs) >= maxAuditedJobs {
		n.count = max(n.count, len(n.jobs)) + 1
		return
	}
	n.jobs = append(n.jobs, named)
}

// noteNode notes which node a stream is about.
func noteNode(ctx context.Context, name string) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.nodes = name
	}
}

type noteKey struct{}

// noteCaller notes the caller for the line of this request.
func noteCaller(ctx context.Context, from *caller) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.from = from
	}
}

// notePassedOn notes that another controller answered. That one writes the line
// of the request, and counts it.
func notePassedOn(ctx context.Context, leader string) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.leader = leader
	}
}

// noteUnary counts a request and writes its line.
func (s *core) noteUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	begin, about := time.Now(), &note{}
	s.tally.Begin()
	answer, err := handler(context.WithValue(ctx, noteKey{}, about), request)
	s.answered(ctx, line{note: about, method: info.FullMethod, request: request, answer: answer, err: err, begin: begin})
	return answer, err
}

// notedStream gives a handler the context in which the caller is noted.
type notedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (n *notedStream) Context() context.Context { return n.ctx }

// noteStream does the same for a stream, when it ends.
func (s *core) noteStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	begin, about := time.Now(), &note{}
	s.tally.Begin()
	ctx := context.WithValue(stream.Context(), noteKey{}, about)
	err := handler(server, &notedStream{stream, ctx})
	s.answered(ctx, line{note: about, method: info.FullMethod, err: err, begin: begin})
	return err
}

// line is what is known of a request that was answered.
type line struct {
	method          string
	request, answer any // nil of a stream
	err             error
	begin           time.Time
	*note
}

func (s *core) answered(ctx context.Context, l line) {
	s.metrics.answered(l)
	s.tally.End(path.Base(l.method), l.user(), time.Since(l.begin))
	s.writeLine(ctx, l)
}

// user is who asked, if it was a user.
func (l *line) user() *uint32 {
	if l.note == nil || l.from == nil || !l.from.isUser {
		return nil
	}
	return &l.from.uid
}

// levelOf is the level and the message of a line.
func (l *line) levelOf() (slog.Level, string) {
	switch {
	case l.leader != "":
		return slog.LevelDebug, "request passed on"
	case !changes(l.method, l.request):
		return slog.LevelDebug, "request"
	case l.err != nil:
		return slog.LevelInfo, MessageRefused
	}
	return slog.LevelInfo, "request"
}

func (s *core) writeLine(ctx context.Context, l line) {
	level, message := l.levelOf()
	if !s.log.Enabled(ctx, level) {
		return
	}
	attributes := append(make([]slog.Attr, 0, 10), slog.String("method", path.Base(l.method)))
	attributes = append(attributes, l.from.attributes()...)
	if l.leader != "" {
		attributes = append(attributes, slog.String("leader", l.leader))
	} else if peer := fromPeer(ctx); peer != "" {
		attributes = append(attributes, slog.String("peer", peer))
	}
	if by, ok := l.request.(interface{ GetRequestId() string }); ok && by.GetRequestId() != "" {
		attributes = append(attributes, slog.String("request_id", by.GetRequestId()))
	}
	attributes = append(attributes, touched(l.request, l.answer, l.nodes)...)
	code := status.Code(l.err)
	attributes = append(attributes, slog.String("result", code.String()), slog.Duration("took", time.Since(l.begin)))
	if code != codes.OK {
		attributes = append(attributes, slog.String("error", status.Convert(l.err).Message()))
	}
	s.log.LogAttrs(ctx, level, message, attributes...)
}

// attributes name a caller: a user by number, with the name where the proof of
// identity carries one, or a node.
func (c *caller) attributes() []slog.Attr {
	switch {
	case c == nil:
		return nil
	case c.node != "":
		return []slog.Attr{slog.String("node", c.node)}
	}
	of := []slog.Attr{slog.Uint64("uid", uint64(c.uid))}
	if c.user != "" {
		of = append(of, slog.String("user", c.user))
	}
	return of
}

// touched are the jobs and nodes that a request was about.
func touched(request, answer any, nodes string) []slog.Attr {
	switch got := answer.(type) {
	case *pb.SubmitResponse:
		return []slog.Attr{slog.Uint64("job", uint64(got.GetJobId()))}
	case interface{ GetResults() []*pb.JobResult }:
		return jobsTouched(got.GetResults())
	}
	switch asked := request.(type) {
	case *pb.UpdateNodeRequest:
		return []slog.Attr{slog.String("nodes", asked.GetNames()), slog.String("action", actionWord(asked.GetAction())), slog.String("reason", asked.GetReason())}
	case *pb.ReclaimNodesRequest, *pb.ReleaseNodesRequest, *pb.SetLendingRequest:
		return []slog.Attr{slog.String("nodes", nodes)}
	}
	return nil
}

func jobsTouched(results []*pb.JobResult) []slog.Attr {
	if len(results) == 1 {
		return []slog.Attr{slog.Uint64("job", uint64(results[0].GetId().GetJob()))}
	}
	var text strings.Builder
	for i, result := range results[:min(len(results), maxJobsNoted)] {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.FormatUint(uint64(result.GetId().GetJob()), 10))
	}
	return []slog.Attr{slog.String("jobs", text.String()), slog.Int("count", len(results))}
}
