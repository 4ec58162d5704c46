package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	firstJob    = 1001 // where no other number of an answer is
	nodes       = 4
	cpusPerNode = 4
	patience    = 60 * time.Minute // for all rows of one side
	endPatience = 30 * time.Second
)

// typing is one run over the rows.
type typing struct {
	peer, sources, user string
	directory           string // everything of this run is in it
	accounting          bool   // the peer has it
}

// missing says what the run lacks, "" if it has all.
func (t *typing) missing() string {
	if os.Getuid() != 0 {
		return "it needs root"
	}
	if t.peer == "" {
		return "PEER=DIR names a folder in which Slurm is installed, with slurmdbd and MariaDB for the rows on accounting"
	}
	for _, program := range []string{"usr/bin/sbatch", "usr/sbin/slurmctld-wlm", "usr/sbin/slurmd-wlm", "usr/bin/setpriv", "bin/bash"} {
		if _, err := os.Stat(filepath.Join(t.peer, program)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("there is no /%s in PEER=%s", program, t.peer)
		}
	}
	_, dbd := os.Stat(filepath.Join(t.peer, "usr/sbin/slurmdbd"))
	_, mariadb := os.Stat(filepath.Join(t.peer, "usr/sbin/mariadbd"))
	t.accounting = dbd == nil && mariadb == nil
	return ""
}

// typeable are those of the rows that the peer can answer; it says which others it
// leaves out.
func (t *typing) typeable(rows []row) []row {
	return slices.DeleteFunc(rows, func(r row) bool {
		out := r.usesAccounting() && !t.accounting
		if out {
			fmt.Printf("differ: left out: %s: there are no slurmdbd and mariadbd in PEER=%s\n", r.name, t.peer)
		}
		return out
	})
}

// typeAll types the rows into both clusters at the same time.
func (t *typing) typeAll(rows []row) error {
	var err error
	if t.directory, err = os.MkdirTemp("/var/tmp", "gleaner-differ."); err != nil {
		return err
	}
	if err := t.write(rows); err != nil {
		return err
	}
	fmt.Printf("differ: %d rows; what each side says is in %s\n", len(rows), t.directory)
	var both sync.WaitGroup
	failures := make([]error, 2)
	for i, side := range []string{"slurm", "gleaner"} {
		both.Add(1)
		go func() {
			defer both.Done()
			failures[i] = t.run(side)
		}()
	}
	both.Wait()
	return errors.Join(failures...)
}

// write lays out what the scripts read.
func (t *typing) write(rows []row) error {
	if err := os.Chmod(t.directory, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(t.directory, "rows"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"words.sh", "rows.sh"} {
		text, err := os.ReadFile(filepath.Join(t.sources, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(t.directory, name), text, 0o755)
		}
		if err != nil {
			return err
		}
	}
	for i, r := range rows {
		path := filepath.Join(t.directory, "rows", fmt.Sprintf("%03d.%s.row", i, r.name))
		if err := os.WriteFile(path, []byte(r.typed+"\n"), 0o644); err != nil {
			return err
		}
		if r.root {
			if err := os.WriteFile(strings.TrimSuffix(path, ".row")+".root", nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// run starts one cluster, has the rows typed there, and ends it.
func (t *typing) run(side string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := os.MkdirAll(filepath.Join(t.directory, side), 0o755); err != nil {
		return err
	}
	memory, err := memoryPerNodeMB()
	if err != nil {
		return err
	}
	rows := []string{filepath.Join(t.directory, "rows.sh"), t.directory, side, t.user}
	arguments := append([]string{filepath.Join(t.sources, "gleaner.sh"), t.user}, rows...)
	if side == "slurm" {
		arguments = append([]string{filepath.Join(t.sources, "peer.sh"), t.peer, t.directory, t.user}, rows...)
	}
	command := exec.CommandContext(ctx, "bash", arguments...)
	command.Env = append(os.Environ(), fmt.Sprintf("FIRST_JOB=%d", firstJob), fmt.Sprintf("MEMORY=%d", memory), fmt.Sprintf("MEMORY_PER_CPU=%d", memory/cpusPerNode))
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = endPatience
	log, err := os.Create(filepath.Join(t.directory, side, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: see %s", side, err, log.Name())
	}
	return nil
}

// memoryPerNodeMB is what gleaner dev shares out: four fifths of the machine's.
func memoryPerNodeMB() (uint64, error) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return info.Totalram * uint64(info.Unit) >> 20 * 4 / 5 / nodes, nil
}

// answer is what a side said to a row, in the form that is compared.
func (t *typing) answer(side string, r row) string {
	found, _ := filepath.Glob(filepath.Join(t.directory, side, "said", "[0-9]*."+r.name+".out"))
	if len(found) != 1 {
		return ""
	}
	said, _ := os.ReadFile(found[0])
	jobs, _ := os.ReadFile(strings.TrimSuffix(found[0], ".out") + ".jobs")
	host, _ := os.Hostname()
	if side == "slurm" {
		host = "peer"
	}
	name := strings.TrimSuffix(filepath.Base(found[0]), ".out")
	return normal(string(said), strings.Fields(string(jobs)), map[string]string{
		filepath.Join(t.directory, side, "in", name): "HERE",
		"@" + host: "@HOST", "=" + host: "=HOST",
	})
}
