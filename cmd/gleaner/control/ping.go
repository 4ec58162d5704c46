package control

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// restore is Slurm's banner for when no controller answers.
const restore = `*****************************************
** RESTORE SLURMCTLD DAEMON TO SERVICE **
*****************************************
`

// pinged is one controller and its answer. hostname, pinged, latency, mode,
// responding and primary are Slurm's.
type pinged struct {
	Target      string `json:"target"`
	Hostname    string `json:"hostname"`
	Mode        string `json:"mode"`   // primary, or backup, as listed
	Pinged      string `json:"pinged"` // UP or DOWN
	Responding  bool   `json:"responding"`
	Primary     bool   `json:"primary"`
	Latency     int64  `json:"latency"` // microseconds; 0 when it is down
	Role        string `json:"role"`
	Leader      string `json:"leader"` // as it knows; "" = none
	Version     string `json:"version"`
	Level       uint32 `json:"level"`
	Term        uint64 `json:"term"`
	Applied     uint64 `json:"applied_index"`
	Committed   uint64 `json:"commit_index"`
	Lag         uint64 `json:"lag"`             // commands committed and not yet applied there
	LastContact int64  `json:"last_contact_ms"` // with the leader; 0 = it leads, -1 = never
	Error       string `json:"error,omitempty"`
}

func (p *pinged) up() bool { return p.Responding }

// controlPing asks every controller by itself.
func controlPing(c *controlRun, words []string) error {
	if len(words) > 0 {
		return c.tooMany("ping")
	}
	targets, err := dial.Targets(c.inv.Text(option.Controller))
	if err != nil {
		return err
	}
	answers := pingAll(c.inv.Context, targets)
	up := false
	for i := range answers {
		up = up || answers[i].up()
	}
	if err := c.printPinged(answers, up); err != nil {
		return err
	}
	if !up {
		return option.Exit(1)
	}
	return nil
}

// pingAll asks all at once and returns their answers in the order of the targets.
func pingAll(ctx context.Context, targets []string) []pinged {
	answers := make([]pinged, len(targets))
	var asking sync.WaitGroup
	for i, target := range targets {
		asking.Go(func() {
			answers[i] = ping(ctx, target)
			answers[i].Mode, answers[i].Primary = "primary", i == 0
			if i > 0 {
				answers[i].Mode = fmt.Sprintf("backup%d", i)
			}
		})
	}
	asking.Wait()
	return answers
}

func ping(ctx context.Context, target string) pinged {
	answer := pinged{Target: target, Hostname: target, Pinged: "DOWN", LastContact: -1}
	connection, err := dial.Dial([]string{target}, "")
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, client.PingTime)
	defer cancel()
	begin := time.Now()
	response, err := pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	if err != nil {
		answer.Error = client.Plain(err)
		if status.Code(err) == codes.DeadlineExceeded {
			answer.Error = client.Silence(client.PingTime).Error()
		}
		return answer
	}
	answer.Pinged, answer.Responding, answer.Latency = "UP", true, time.Since(begin).Microseconds()
	answer.Hostname, answer.Role, answer.Leader, answer.Version = response.Peer, response.Role, response.Leader, response.Version
	answer.Term, answer.Level = response.Term, response.Level
	answer.Applied, answer.Committed = response.AppliedIndex, max(response.CommitIndex, response.AppliedIndex)
	answer.Lag, answer.LastContact = answer.Committed-answer.Applied, response.LastContactMs
	return answer
}

func (c *controlRun) printPinged(answers []pinged, up bool) error {
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "pings", answers)
	}
	var text strings.Builder
	for i := range answers {
		answer := &answers[i]
		fmt.Fprintf(&text, "Slurmctld(%s) at %s is %s\n", answer.Mode, format.Printable(answer.Hostname), answer.Pinged)
		if c.details && answer.up() {
			fmt.Fprintf(&text, "   Role=%s Leader=%s Term=%d AppliedIndex=%d Lag=%d Level=%d LastContact=%s Version=%s\n",
				format.Printable(answer.Role), format.Printable(orNone(answer.Leader)), answer.Term, answer.Applied, answer.Lag, answer.Level,
				contactText(answer.LastContact), format.Printable(answer.Version))
		}
		if answer.Error != "" {
			fmt.Fprintf(c.inv.Stderr, "%s: %s: %s\n", c.inv.Command.Program(), format.Printable(answer.Target), format.Printable(answer.Error))
		}
	}
	if !up {
		text.WriteString(restore)
	}
	_, err := fmt.Fprint(c.inv.Stdout, text.String())
	return err
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}
