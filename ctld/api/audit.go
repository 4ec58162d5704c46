package api

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file writes the audit log: a line for each request that changes
// something, refused or not, and for reads of what belongs to another user. A
// request that was passed on leaves its line where it was answered, with the
// caller and the controller that vouched for it. Scripts, environments and
// arguments are never in it.

// Bounds of one line.
const (
	maxAuditedJobs    = 64
	maxAuditedTargets = 64
	maxAuditedText    = 512
)

// auditedStreams are the streams that leave a line: Session when a node has
// registered, Attach when a user has joined a job, ListJobs when a user has
// read another user's script or environment, ContainerImages when images are not only listed.
var auditedStreams = map[string]bool{
	pb.Controller_Attach_FullMethodName: true, pb.Controller_SaveSnapshot_FullMethodName: true, pb.Controller_RestoreSnapshot_FullMethodName: true,
	pb.NodeLink_Session_FullMethodName: true, pb.Controller_ListJobs_FullMethodName: true, pb.Controller_ContainerImages_FullMethodName: true,
}

// auditUnary writes the line of a request.
func (s *core) auditUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	if s.options.Audit == nil || !changes(info.FullMethod, request) {
		return handler(ctx, request)
	}
	if s.options.AuditRequired {
		if err := s.auditAsked(ctx, info.FullMethod, request); err != nil {
			return nil, err
		}
	}
	finished := false
	defer func() {
		if !finished {
			err = status.Error(codes.Internal, "the handler failed") // and continues failing
		}
		_ = s.options.Audit.Write(s.auditEntry(ctx, info.FullMethod, request, answer, err)) // which reports its own errors
	}()
	answer, err = handler(ctx, request)
	finished = true
	return answer, err
}

// auditStream writes the line of a stream that has written none itself.
func (s *core) auditStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if s.options.Audit == nil || !auditedStreams[info.FullMethod] {
		return handler(server, stream)
	}
	err := handler(server, stream)
	about, _ := stream.Context().Value(noteKey{}).(*note)
	quiet := info.FullMethod == pb.Controller_ListJobs_FullMethodName && (about == nil || len(about.jobs) == 0) ||
		info.FullMethod == pb.Controller_ContainerImages_FullMethodName && (about == nil || len(about.targets) == 0)
	if about != nil && about.audited || quiet || status.Code(err) == codes.Unavailable {
		return err
	}
	_ = s.options.Audit.Write(s.auditEntry(stream.Context(), info.FullMethod, nil, nil, err))
	return err
}

// auditNow writes the line of a stream before it continues for long.
func (s *core) auditNow(ctx context.Context, method string) error {
	about, ok := ctx.Value(noteKey{}).(*note)
	if s.options.Audit == nil || !ok {
		return nil
	}
	about.audited = true
	err := s.options.Audit.Write(s.auditEntry(ctx, method, nil, nil, nil))
	if err != nil && s.options.AuditRequired {
		return errNoAudit(err)
	}
	return nil
}

func errNoAudit(err error) error {
	return status.Errorf(codes.Unavailable, "the audit log of this controller cannot be written (%v), and nothing is done without it (audit = \"required\" in gctld.toml): tell an administrator", err)
}

// auditAsked writes down what is about to be done, or refuses the request.
func (s *core) auditAsked(ctx context.Context, method string, request any) error {
	entry := s.auditEntry(ctx, method, request, nil, nil)
	entry.Stage, entry.Result = "asked", ""
	if err := s.options.Audit.Write(entry); err != nil {
		return errNoAudit(err)
	}
	return nil
}

func (s *core) auditEntry(ctx context.Context, method string, request, answer any, err error) *audit.Entry {
	e := &audit.Entry{Stage: "answered", Verb: path.Base(method), Result: status.Code(err).String()}
	if err != nil {
		e.Error = clipped(status.Convert(err).Message())
	}
	about, _ := ctx.Value(noteKey{}).(*note)
	s.auditWho(ctx, e, about)
	if by, ok := request.(interface{ GetRequestId() string }); ok {
		e.RequestID = clipped(by.GetRequestId())
	}
	if about != nil {
		e.Jobs, e.JobCount, e.Nodes, e.Targets = about.jobs, about.count, about.nodes, about.targets
	}
	auditWhat(e, request)
	s.auditAnswer(e, answer)
	return e
}

// auditWho fills in who asked, and from where.
func (s *core) auditWho(ctx context.Context, e *audit.Entry, about *note) {
	connected, err := s.connection(ctx)
	if err == nil {
		e.Via = connected.via
		switch {
		case connected.node != "":
			e.Certificate = "node " + connected.node
		case connected.host != "":
			e.Certificate = "host " + connected.host
		case connected.controller != "":
			e.Certificate = "controller " + connected.controller
		case connected.certificate:
			e.Certificate = "user " + connected.user
		}
	}
	e.From = s.askedFrom(ctx)
	from := connected
	if about != nil && about.from != nil {
		from = about.from
	}
	switch {
	case from == nil:
	case from.isUser:
		uid := from.uid
		e.UID, e.User, e.InsideJob = &uid, from.name(), from.owner != nil
		e.VouchedBy = from.vouchedBy
	case from.munge.IsValid(): // refused
		uid := from.uid
		e.UID, e.VouchedBy = &uid, mungeName(from.munge)
	default:
		e.Node = from.node
	}
}

// askedFrom is where a request came from, according to the controller that had
// the connection.
func (s *core) askedFrom(ctx context.Context) string {
	if fromPeer(ctx) != "" {
		return clipped(firstIncoming(ctx, metadataFrom))
	}
	return connectedFrom(ctx)
}

func connectedFrom(ctx context.Context) string {
	remote, ok := peer.FromContext(ctx)
	if !ok || remote.Addr == nil {
		return ""
	}
	if info, ok := remote.AuthInfo.(peerInfo); ok {
		return "unix pid " + strconv.Itoa(int(info.pid))
	}
	return remote.Addr.String()
}

// auditWhat fills in what a request names besides jobs.
func auditWhat(e *audit.Entry, request any) {
	add := func(format string, arguments ...any) {
		if len(e.Targets) < maxAuditedTargets {
			e.Targets = append(e.Targets, clipped(fmt.Sprintf(format, arguments...)))
		}
	}
	switch asked := request.(type) {
	case *pb.SubmitRequest:
		if asked.GetAsUser() != "" {
			add("as %s", asked.GetAsUser())
		}
		if image := asked.GetSpec().GetImage(); image != "" {
			add("container image %s", image) // the digest says what ran
		}
	case *pb.CancelRequest:
		if asked.GetSignal() != 0 {
			add("signal %d", asked.GetSignal())
		}
	case *pb.ControlRequest:
		e.Verb += "." + strings.ToLower(strings.TrimPrefix(asked.GetVerb().String(), "CONTROL_VERB_"))
	case *pb.SaveJobsRequest:
		if asked.GetMove() {
			add("move to %s", asked.GetNode())
		}
	case *pb.UpdateNodeRequest:
		e.Nodes = clipped(asked.GetNames())
		add("%s: %s", actionWord(asked.GetAction()), asked.GetReason())
	case *pb.ReclaimNodesRequest:
		if asked.GetWithinS() == 0 {
			add("within the owner's notice")
		} else {
			add("within %d s", asked.GetWithinS())
		}
		if asked.GetForS() != 0 || asked.GetUntilMs() != 0 {
			add("for %d s, until %d", asked.GetForS(), asked.GetUntilMs())
		}
		if asked.GetKill() {
			add("kill")
		}
		e.Nodes = cmp.Or(e.Nodes, clipped(asked.GetNames()))
	case *pb.ReleaseNodesRequest:
		e.Nodes = cmp.Or(e.Nodes, clipped(asked.GetNames()))
	case *pb.SetLendingRequest:
		e.Nodes = cmp.Or(e.Nodes, clipped(asked.GetNames()))
		if asked.GetFromDefault() {
			add("reset")
		}
		for _, setting := range asked.GetSettings() {
			add("%s", setting)
		}
	case *pb.CreateReservationRequest:
		e.Nodes = clipped(asked.GetReservation().GetNodes())
		add("%s", asked.GetReservation().GetName())
	case *pb.UpdateReservationRequest:
		e.Nodes = clipped(asked.GetReservation().GetNodes())
		add("%s: %s", asked.GetReservation().GetName(), strings.Join(asked.GetFields(), ", "))
	case *pb.ChangeAccountsRequest:
		for _, c := range asked.GetChanges() {
			word := func(text, prefix string) string { return strings.ToLower(strings.TrimPrefix(text, prefix)) }
			add("%s %s account=%s user=%s qos=%s", word(c.GetAction().String(), "CHANGE_ACTION_"), word(c.GetRecord().String(), "ACCOUNT_RECORD_"), c.GetAccount(), c.GetUser(), c.GetQos())
		}
	case *pb.RevokeCertificatesRequest:
		for _, name := range asked.GetNames() {
			add("%s", name)
		}
	case interface{ GetName() string }: // controllers
		add("%s", asked.GetName())
	}
}

// auditAnswer fills in what an answer says was changed: settings, or jobs and
// their owners.
func (s *core) auditAnswer(e *audit.Entry, answer any) {
	view := s.cluster.View()
	switch got := answer.(type) {
	case *pb.ApplyPolicyResponse:
		changes := got.GetChanges()
		for _, change := range changes[:min(len(changes), maxAuditedTargets)] {
			e.Targets = append(e.Targets, change.GetPath())
		}
	case *pb.SubmitResponse:
		if got != nil {
			e.Jobs = append(e.Jobs, auditedJob(view, &pb.JobId{Job: got.GetJobId()}))
		}
	case interface{ GetResults() []*pb.JobResult }:
		results := got.GetResults()
		for _, result := range results[:min(len(results), maxAuditedJobs)] {
			job := auditedJob(view, result.GetId())
			job.Error = clipped(result.GetError())
			e.Jobs = append(e.Jobs, job)
		}
		if len(results) > maxAuditedJobs {
			e.JobCount = len(results)
		}
	}
}

// auditedJob names a job and its owner.
func auditedJob(view *state.View, id *pb.JobId) audit.Job {
	named := audit.Job{Job: strconv.FormatUint(uint64(id.GetJob()), 10)}
	if id.ArrayTask != nil {
		named.Job += "_" + strconv.FormatUint(uint64(id.GetArrayTask()), 10)
	}
	for _, found := range resolve(view, idTargets([]*pb.JobId{id})[0])[:1] {
		if found.job != nil {
			named.Owner, named.UID = found.job.Owner().User, found.job.Owner().UID
		}
	}
	return named
}

// clipped bounds what a stranger can put into a line.
func clipped(text string) string {
	if len(text) > maxAuditedText {
		text = strings.ToValidUTF8(text[:maxAuditedText], "") + "..."
	}
	return text
}
