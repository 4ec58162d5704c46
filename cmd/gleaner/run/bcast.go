package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// receive takes a program on a node: whole or not at all.
const receive = `umask 077; cat > "$0.part" && chmod 700 "$0.part" && mv -f "$0.part" "$0"`

// broadcastTime is how long one node may take for the program.
const broadcastTime = 10 * time.Minute

// broadcast copies the program to every node of the step (srun(1), --bcast), and answers
// the words to run there.
func (r *stepRunner) broadcast(ctx context.Context) ([]string, error) {
	argv := r.inv.Operands
	if !r.inv.Given(optBcast) {
		return argv, nil
	}
	source, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, option.Fail(2, "execve(): %s: No such file or directory", argv[0])
	}
	target := r.inv.Text(optBcast)
	switch {
	case target == "":
		target = fmt.Sprintf("slurm_bcast_%s.%d", r.shape.job, r.number)
	case strings.HasSuffix(target, "/"):
		target += filepath.Base(source)
	}
	target = inDirectory(r.directory, target)
	for _, place := range r.plan {
		if err := r.send(ctx, place.node, source, target); err != nil {
			return nil, option.Fail(1, "--%s: %s cannot be copied to %s on node %s: %w", optBcast, argv[0], target, place.node, err)
		}
	}
	return append([]string{target}, argv[1:]...), nil
}

// send copies a file to one node, through a task that writes it there.
func (r *stepRunner) send(ctx context.Context, node, source, target string) error {
	file, err := os.Open(source)
	if err != nil {
		return console.Reason(err)
	}
	defer file.Close()
	client, err := r.dialer.dial(ctx, node)
	if err != nil {
		return err
	}
	defer client.Close()
	return within(broadcastTime, client, func() error {
		err := client.Launch(&step.Launch{
			Step: r.number, Argv: step.Strings{"/bin/sh", "-c", receive, target}, Env: step.Strings{"PATH=/usr/bin:/bin"},
			Cwd: step.Bytes(r.directory), Tasks: []step.Task{{}}, Input: step.InputAll,
		})
		if err != nil {
			return err
		}
		go func() {
			buffer := make([]byte, 64<<10)
			for {
				n, err := file.Read(buffer)
				if n > 0 && client.SendInput(0, true, buffer[:n]) != nil || err != nil && err != io.EOF {
					_ = client.Close() // half a program must not look like a whole one
					return
				}
				if err == io.EOF {
					_ = client.EndInput(0, true)
					return
				}
			}
		}()
		return received(client)
	})
}

// received waits until the node has it all.
func received(client *step.Client) error {
	said, status := "", 0
	for {
		message, err := client.Next()
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case *step.Output:
			said = (said + string(message.Data))[:min(len(said)+len(message.Data), 256)]
		case *step.Exited:
			status = max(message.Code, message.Signal)
		case *step.Failed:
			return fmt.Errorf("%s", format.Printable(message.Text))
		case *step.Done:
			if status != 0 {
				return fmt.Errorf("%s", format.Printable(strings.TrimSpace(said)))
			}
			return nil
		}
	}
}
