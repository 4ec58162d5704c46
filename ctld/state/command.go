package state

import "fmt"

// Kind says which command an envelope holds. Numbers are append-only.
type Kind uint16

// Kinds of command.
const (
	KindBarrier       Kind = 1
	KindSubmitJob     Kind = 2
	KindCancelJobs    Kind = 3
	KindHoldJobs      Kind = 4
	KindReleaseJobs   Kind = 5
	KindRequeueJobs   Kind = 6
	KindPlaceJobs     Kind = 7
	KindAllocsReady   Kind = 8
	KindAllocsEnded   Kind = 9
	KindRegisterNode  Kind = 10
	KindUpdateNodes   Kind = 11
	KindNodesLost     Kind = 12
	KindNodesBack     Kind = 13
	KindApplyPolicy   Kind = 14
	KindPurgeJobs     Kind = 15
	KindNoteLeftOvers Kind = 16
	KindRaiseLevel    Kind = 17
	KindLeasesEnded   Kind = 18
	KindPreemptJobs   Kind = 27

	KindChangeAccounts Kind = 19
	KindUpdateJobs     Kind = 23
	KindEndLateJobs    Kind = 24

	KindSuspendJobs     Kind = 28
	KindResumeJobs      Kind = 29
	KindAllocsSuspended Kind = 30
	KindContinueJobs    Kind = 31

	KindSaveJobs     Kind = 32
	KindAllocsSaved  Kind = 33
	KindAbandonSaves Kind = 34
	KindDropImages   Kind = 35

	KindResetUsage Kind = 40

	KindRecordCertificates Kind = 45
	KindRevokeCertificates Kind = 46

	KindFailMoves Kind = 50

	KindReclaimNodes Kind = 55
	KindReleaseNodes Kind = 56
	KindEndReclaims  Kind = 57

	KindSetLending Kind = 65

	KindNoteImagePlaces Kind = 75
	KindNoteHolds       Kind = 60
	KindEndEvacuations  Kind = 76

	KindCreateReservation Kind = 77
	KindUpdateReservation Kind = 78
	KindDeleteReservation Kind = 79
	KindEndReservations   Kind = 80

	KindNodeLeaves Kind = 420

	KindTrimHistory Kind = 700

	KindTopJobs Kind = 900
)

// Command is a change to the state. Its fields carry CBOR integer keys, which
// are append-only like the kinds.
type Command interface {
	kind() Kind
	// apply checks the command against the state and applies it. It must not
	// change anything before it refuses.
	apply(s *State, result *Result)
}

type commandRow struct {
	name   string
	decode func(body []byte) (Command, error)
}

// commands is the table of all commands. To add one: a kind above, a line here,
// and a file with its struct, its check and its change.
var commands = map[Kind]commandRow{
	KindBarrier:       {"Barrier", decodeInto[Barrier]},
	KindSubmitJob:     {"SubmitJob", decodeInto[SubmitJob]},
	KindCancelJobs:    {"CancelJobs", decodeInto[CancelJobs]},
	KindHoldJobs:      {"HoldJobs", decodeInto[HoldJobs]},
	KindReleaseJobs:   {"ReleaseJobs", decodeInto[ReleaseJobs]},
	KindRequeueJobs:   {"RequeueJobs", decodeInto[RequeueJobs]},
	KindPlaceJobs:     {"PlaceJobs", decodeInto[PlaceJobs]},
	KindAllocsReady:   {"AllocsReady", decodeInto[AllocsReady]},
	KindAllocsEnded:   {"AllocsEnded", decodeInto[AllocsEnded]},
	KindRegisterNode:  {"RegisterNode", decodeInto[RegisterNode]},
	KindUpdateNodes:   {"UpdateNodes", decodeInto[UpdateNodes]},
	KindNodesLost:     {"NodesLost", decodeInto[NodesLost]},
	KindNodesBack:     {"NodesBack", decodeInto[NodesBack]},
	KindApplyPolicy:   {"ApplyPolicy", decodeInto[ApplyPolicy]},
	KindPurgeJobs:     {"PurgeJobs", decodeInto[PurgeJobs]},
	KindNoteLeftOvers: {"NoteLeftOvers", decodeInto[NoteLeftOvers]},
	KindRaiseLevel:    {"RaiseLevel", decodeInto[RaiseLevel]},
	KindLeasesEnded:   {"LeasesEnded", decodeInto[LeasesEnded]},
	KindPreemptJobs:   {"PreemptJobs", decodeInto[PreemptJobs]},

	KindChangeAccounts: {"ChangeAccounts", decodeInto[ChangeAccounts]},
	KindUpdateJobs:     {"UpdateJobs", decodeInto[UpdateJobs]},
	KindEndLateJobs:    {"EndLateJobs", decodeInto[EndLateJobs]},

	KindSuspendJobs:     {"SuspendJobs", decodeInto[SuspendJobs]},
	KindResumeJobs:      {"ResumeJobs", decodeInto[ResumeJobs]},
	KindAllocsSuspended: {"AllocsSuspended", decodeInto[AllocsSuspended]},
	KindContinueJobs:    {"ContinueJobs", decodeInto[ContinueJobs]},

	KindSaveJobs:     {"SaveJobs", decodeInto[SaveJobs]},
	KindAllocsSaved:  {"AllocsSaved", decodeInto[AllocsSaved]},
	KindAbandonSaves: {"AbandonSaves", decodeInto[AbandonSaves]},
	KindDropImages:   {"DropImages", decodeInto[DropImages]},

	KindResetUsage: {"ResetUsage", decodeInto[ResetUsage]},

	KindRecordCertificates: {"RecordCertificates", decodeInto[RecordCertificates]},
	KindRevokeCertificates: {"RevokeCertificates", decodeInto[RevokeCertificates]},

	KindFailMoves: {"FailMoves", decodeInto[FailMoves]},

	KindReclaimNodes: {"ReclaimNodes", decodeInto[ReclaimNodes]},
	KindReleaseNodes: {"ReleaseNodes", decodeInto[ReleaseNodes]},
	KindEndReclaims:  {"EndReclaims", decodeInto[EndReclaims]},

	KindSetLending: {"SetLending", decodeInto[SetLending]},

	KindNoteImagePlaces: {"NoteImagePlaces", decodeInto[NoteImagePlaces]},
	KindNoteHolds:       {"NoteHolds", decodeInto[NoteHolds]},
	KindEndEvacuations:  {"EndEvacuations", decodeInto[EndEvacuations]},

	KindCreateReservation: {"CreateReservation", decodeInto[CreateReservation]},
	KindUpdateReservation: {"UpdateReservation", decodeInto[UpdateReservation]},
	KindDeleteReservation: {"DeleteReservation", decodeInto[DeleteReservation]},
	KindEndReservations:   {"EndReservations", decodeInto[EndReservations]},

	KindNodeLeaves: {"NodeLeaves", decodeInto[NodeLeaves]},

	KindTrimHistory: {"TrimHistory", decodeInto[TrimHistory]},

	KindTopJobs: {"TopJobs", decodeInto[TopJobs]},
}

// String is the command's name.
func (k Kind) String() string {
	if row, known := commands[k]; known {
		return row.name
	}
	return fmt.Sprintf("Kind(%d)", uint16(k))
}

func decodeInto[C Command](body []byte) (Command, error) {
	var command C
	if err := decoding.Unmarshal(body, &command); err != nil {
		return nil, err
	}
	return command, nil
}
