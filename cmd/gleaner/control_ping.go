package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// pingTime is how long a controller has to answer: one that does not answer
// in this time is as good as down for whoever asks.
var pingTime = 2 * time.Second

// restore is Slurm's banner for when no controller answers.
const restore = `*****************************************
** RESTORE SLURMCTLD DAEMON TO SERVICE **
*****************************************
`

// pinged is one controller and its answer.
type pinged struct {
	Target   string `json:"target"`
	Hostname string `json:"hostname"`
	Mode     string `json:"mode"`   // primary, or backup, as listed
	Pinged   string `json:"pinged"` // UP or DOWN
	Role     string `json:"role"`
	Version  string `json:"version"`
	Term     uint64 `json:"term"`
	Applied  uint64 `json:"applied_index"`
	Error    string `json:"error,omitempty"`
}

// controlPing asks every controller by itself.
func controlPing(c *controlRun, words []string) error {
	if len(words) > 0 {
		return c.tooMany("ping")
	}
	var answers []pinged
	up := false
	for i, target := range dial.Targets(c.inv.Text(option.Controller)) {
		answer := ping(c.inv.Context, target)
		answer.Mode = "primary"
		if i > 0 {
			answer.Mode = fmt.Sprintf("backup%d", i)
		}
		up = up || answer.Pinged == "UP"
		answers = append(answers, answer)
	}
	if err := c.printPinged(answers, up); err != nil {
		return err
	}
	if !up {
		return option.Exit(1)
	}
	return nil
}

func ping(ctx context.Context, target string) pinged {
	answer := pinged{Target: target, Hostname: target, Pinged: "DOWN"}
	connection, err := dial.Dial([]string{target}, "")
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	response, err := pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	if err != nil {
		answer.Error = plain(err)
		if status.Code(err) == codes.DeadlineExceeded {
			answer.Error = silence(pingTime).Error()
		}
		return answer
	}
	answer.Hostname, answer.Role, answer.Version = response.Peer, response.Role, response.Version
	answer.Term, answer.Applied, answer.Pinged = response.Term, response.AppliedIndex, "UP"
	return answer
}

func (c *controlRun) printPinged(answers []pinged, up bool) error {
	if c.json != jsonNone {
		return writeJSON(c.inv, c.json, "pings", answers)
	}
	var text strings.Builder
	for _, answer := range answers {
		fmt.Fprintf(&text, "Slurmctld(%s) at %s is %s\n", answer.Mode, format.Printable(answer.Hostname), answer.Pinged)
		if c.details && answer.Pinged == "UP" {
			fmt.Fprintf(&text, "   Role=%s Term=%d AppliedIndex=%d Version=%s\n", format.Printable(answer.Role), answer.Term, answer.Applied, format.Printable(answer.Version))
		}
		if answer.Error != "" {
			fmt.Fprintf(c.inv.Stderr, "%s: %s: %s\n", c.inv.Command.Program(), answer.Target, format.Printable(answer.Error))
		}
	}
	if !up {
		text.WriteString(restore)
	}
	_, err := fmt.Fprint(c.inv.Stdout, text.String())
	return err
}
