package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// ErrNotYet is returned for what a leader cannot judge so soon after it began
// to lead.
var ErrNotYet = errors.New("this controller has just begun to lead")

// invalid refuses a request before anything was written.
func invalid(format string, arguments ...any) error {
	return status.Error(codes.InvalidArgument, plainly(fmt.Sprintf(format, arguments...)))
}

// maxRefusalBytes bounds the words of a refusal, which travel in a header.
const maxRefusalBytes = 4 << 10

// plainly is a refusal that may quote what a stranger sent: in a log and on a
// terminal it must be text and nothing else.
func plainly(text string) string {
	if len(text) > maxRefusalBytes {
		text = strings.ToValidUTF8(text[:maxRefusalBytes], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// codeOf maps the state machine's refusals to gRPC's codes.
var codeOf = map[state.Code]codes.Code{
	state.Invalid:      codes.InvalidArgument,
	state.NotFound:     codes.NotFound,
	state.Denied:       codes.PermissionDenied,
	state.Exhausted:    codes.ResourceExhausted,
	state.WrongState:   codes.FailedPrecondition,
	state.Disabled:     codes.FailedPrecondition,
	state.RequestReuse: codes.AlreadyExists,
}

func refusal(refused *state.Refusal) error {
	code, known := codeOf[refused.Code]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, plainly(refused.Message))
}

// refusalOf is a refusal that the state machine returned as an error.
func refusalOf(err error) error {
	if refused := (*state.Refusal)(nil); errors.As(err, &refused) {
		return refusal(refused)
	}
	return invalid("%v", err)
}

// propose commits a command and turns an error into a status.
func (s *core) propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	if err := s.mustLead(); err != nil {
		return state.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	result, err := s.cluster.Propose(ctx, command, id)
	var refused *state.Refusal
	switch {
	case err == nil && result.Refused != nil:
		return result, refusal(result.Refused)
	case err == nil:
		return result, nil
	case errors.As(err, &refused):
		return result, refusal(refused)
	case errors.Is(err, replica.ErrFull):
		s.log.Warn("a request was refused because the disk is full; free some space, the controller then continues by itself", "error", err)
		return result, status.Errorf(codes.ResourceExhausted, "I/O error writing script/environment to file: %v", err)
	case errors.Is(err, ErrNotYet):
		return result, status.Errorf(codes.Unavailable, "ask again in a moment: %v", err)
	case errors.Is(err, replica.ErrNotLeader):
		if leadErr := s.mustLead(); leadErr != nil {
			return result, leadErr
		}
		return result, status.Error(codes.Unavailable, "this controller has just ceased to lead: ask again with the same request id")
	case errors.Is(err, replica.ErrUncertain):
		return result, status.Errorf(codes.Unavailable, "it is not known whether the request took effect; ask again with the same request id: %v", err)
	default:
		s.log.Error("a request could not be committed; look at the disk of the data directory", "command", result.Kind.String(), "error", err)
		return result, status.Errorf(codes.Unavailable, "the request could not be written to the log: %v", err)
	}
}

// leads reports whether this controller leads and knows all that was accepted
// before, as far as it can tell by itself.
func (s *core) leads() bool { return s.loops.Leading() && s.cluster.IsLeader() }

// confirm refuses unless a majority has confirmed, after the request came, that
// this controller still leads. All answers from the state need it: a leader
// that was paused or cut off does not know that another one was elected, and
// its state is old.
func (s *core) confirm(ctx context.Context) error {
	if err := s.mustLead(); err != nil {
		return err
	}
	err := s.cluster.Confirm(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, replica.ErrNotLeader):
		if leadErr := s.mustLead(); leadErr != nil {
			return leadErr
		}
		return status.Errorf(codes.Unavailable, "controller %s may not lead any more (%v): ask again in a moment", s.cluster.Name(), err)
	}
	return status.Errorf(codes.Unavailable, "controller %s cannot answer: %v", s.cluster.Name(), err)
}

// mustLead refuses while another controller leads, naming it.
func (s *core) mustLead() error {
	if s.leads() {
		return nil
	}
	if leader := s.cluster.Leader(); leader != "" && leader != s.cluster.Name() {
		return status.Errorf(codes.Unavailable, "controller %s does not lead: ask controller %s", s.cluster.Name(), leader)
	}
	return status.Errorf(codes.Unavailable, "no controller leads yet: ask again in a moment")
}

// requestID reads a request id. "" is allowed: such a request is not
// remembered, and a retry of it takes effect again.
func requestID(text string) (state.RequestID, error) {
	if text == "" {
		return state.RequestID{}, nil
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return state.RequestID{}, invalid("request_id %.40q is not a UUID", text)
	}
	return state.RequestID(id), nil
}
