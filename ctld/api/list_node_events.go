package api

import (
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxEventsPerMessage bounds one message of the list of events.
const maxEventsPerMessage = 500

// ListNodeEvents streams the times in which nodes took no jobs: those that are over from
// the database and the outbox, those that last from the state.
func (s *Controller) ListNodeEvents(request *pb.ListNodeEventsRequest, stream pb.Controller_ListNodeEventsServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	list := &eventList{request: request, stream: stream, message: &pb.ListNodeEventsResponse{}}
	if request.GetNodes() != "" {
		names, err := spec.ParseHostList(request.GetNodes())
		if err != nil {
			return invalid("Invalid node name specified: %v", err)
		}
		list.names = setOf(names)
	}
	leave, err := s.readers.enter(stream.Context(), from.uid)
	if err != nil {
		return err
	}
	defer leave()
	view := s.cluster.View()
	if list.may = s.sightOf(from, view); list.may.hides("nodes") || list.may.hides("events") {
		return nil
	}
	if !request.GetLasting() {
		if err := s.pastEvents(list, view); err != nil {
			return err
		}
	}
	for event := range view.Outages() {
		if err := list.add(event); err != nil {
			return err
		}
	}
	return list.send()
}

// pastEvents adds the events that are over.
func (s *Controller) pastEvents(list *eventList, view *state.View) error {
	ctx := list.stream.Context()
	choice := history.Choice{Events: true, SinceMS: list.request.GetSinceMs(), UntilMS: list.request.GetUntilMs()}
	through, err := s.options.History.Read(ctx, choice, state.EndOf(view.Index()), func(found *history.Found) error {
		run, err := found.Run()
		if err != nil {
			return err
		}
		return list.add(run.GetEvent())
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	list.message.Notice = s.historyNotice(view, through, err)
	for stored := range view.HistoryAfter(through) {
		run := new(pb.PastRun)
		if err := proto.Unmarshal(stored.Run, run); err != nil || run.GetEvent() == nil {
			continue
		}
		if err := list.add(run.GetEvent()); err != nil {
			return err
		}
	}
	return nil
}

// eventList is one answer that is being made.
type eventList struct {
	request *pb.ListNodeEventsRequest
	names   map[string]bool // nil = all
	may     *sight
	stream  pb.Controller_ListNodeEventsServer
	message *pb.ListNodeEventsResponse
}

func (l *eventList) add(event *pb.NodeEvent) error {
	since, until := l.request.GetSinceMs(), l.request.GetUntilMs()
	if event == nil || l.names != nil && !l.names[event.Node] ||
		until != 0 && event.StartMs >= until || event.EndMs != 0 && event.EndMs < since {
		return nil
	}
	event.Reason = l.may.conceal(event.Reason)
	if l.may.hides("users") {
		event.User = ""
	}
	if l.message.Events = append(l.message.Events, event); len(l.message.Events) < maxEventsPerMessage {
		return nil
	}
	return l.send()
}

func (l *eventList) send() error {
	if len(l.message.Events) == 0 && l.message.Notice == "" {
		return nil
	}
	err := l.stream.Send(l.message)
	l.message = &pb.ListNodeEventsResponse{}
	return err
}
