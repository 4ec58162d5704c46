package acct

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// jobCurrent is what only the current shape has of a job.
type jobCurrent struct {
	jobUnused
	Container       string         `json:"container"`
	DerivedExitCode any            `json:"derived_exit_code"`
	Hold            bool           `json:"hold"`
	Licenses        string         `json:"licenses"`
	QOSRequested    string         `json:"qosreq"`
	Reservation     jobReservation `json:"reservation"`
	Stderr          string         `json:"stderr"`
	Stdin           string         `json:"stdin"`
	Stdout          string         `json:"stdout"`
	StderrIn        string         `json:"stderr_expanded"`
	StdinIn         string         `json:"stdin_expanded"`
	StdoutIn        string         `json:"stdout_expanded"`
}

type jobReservation struct {
	ID        uint32 `json:"id"`
	Name      string `json:"name"`
	Requested string `json:"requested"`
}

// jobUnused is what no job has here, or what is not kept.
type jobUnused struct {
	Block       string `json:"block"`
	Extra       string `json:"extra"`
	FailedNode  string `json:"failed_node"`
	Het         jobHet `json:"het"`
	MCS         jobMCS `json:"mcs"`
	Script      string `json:"script"`
	SegmentSize uint32 `json:"segment_size"`
	SubmitLine  string `json:"submit_line"`
	UsedGres    string `json:"used_gres"`
}

type jobHet struct {
	JobID  uint32        `json:"job_id"`
	Offset show.Optional `json:"job_offset"`
}

type jobMCS struct {
	Label string `json:"label"`
}

func currentOf(s show.JSONShape, whole past.Row) *jobCurrent {
	job, asked := whole.Job(), whole.Job().GetSpec()
	record := &jobCurrent{
		jobUnused: jobUnused{Het: jobHet{Offset: s.Unset()}}, Container: asked.GetImage(), DerivedExitCode: derivedOf(s, whole),
		Hold: asked.GetHold(), Licenses: asked.GetLicenses(), QOSRequested: asked.GetQos(),
		Reservation: jobReservation{Requested: strings.Join(asked.GetReservations(), ",")},
		Stderr:      asked.GetStandardError(), Stdin: asked.GetStandardInput(), Stdout: asked.GetStandardOutput(),
	}
	record.StdoutIn, record.StderrIn, record.StdinIn = show.StandardFiles(job)
	return record
}

// derivedOf is the highest exit code of the job's steps but its script.
func derivedOf(s show.JSONShape, whole past.Row) any {
	var code, signal uint32
	for _, one := range past.Rows(whole.Run)[1:] {
		if one.Of != nil && (one.Of.Code > code || one.Of.Code == code && one.Of.Signal > signal) {
			code, signal = one.Of.Code, one.Of.Signal
		}
	}
	return s.ExitCode(code, signal)
}

// exitOf is an exit code. Of what still runs the old shape says so.
func exitOf(s show.JSONShape, r past.Row) any {
	code, signal := r.Exit()
	if s != show.JSONOld {
		return s.ExitCode(code, signal)
	}
	word := "SUCCESS"
	switch {
	case r.Run.GetLive() && (r.Of == nil || r.Of.EndMS == 0):
		word = "PENDING"
	case signal != 0:
		word = "SIGNALED"
	case code != 0:
		word = "ERROR"
	}
	answer := map[string]any{"status": word, "return_code": code}
	if signal != 0 {
		answer["signal"] = map[string]any{"signal_id": signal, "name": ""}
	}
	return answer
}
