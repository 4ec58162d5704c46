package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cluster is what is behind the user's commands.
type cluster struct {
	user     *user.User
	uid, gid int
}

func newCluster(name string) (*cluster, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("-user: %w", err)
	}
	c := &cluster{user: u}
	c.uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	c.gid, err = strconv.Atoi(u.Gid)
	return c, err
}

// stepLimit bounds everything that is waited for.
const stepLimit = 3 * time.Minute

// command runs one of the user's commands in a directory and returns its
// output; the error has what it complained of.
func (c *cluster) command(ctx context.Context, dir string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir = dir
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "GLEANER_CONTROLLER=" + os.Getenv("GLEANER_CONTROLLER"),
		"HOME=" + c.user.HomeDir, "USER=" + c.user.Username, "LOGNAME=" + c.user.Username, "SHELL=/bin/bash", "LANG=C.UTF-8",
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.gid)}, Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = 10 * time.Second
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", words[0], err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// migration is one move of a job, as gcontrol tells of it.
type migration struct {
	Done         bool   `json:"done"`
	Error        string `json:"error"`
	SavedOn      string `json:"saved_on"`
	GoesOnOn     string `json:"goes_on_on"`
	Bytes        uint64 `json:"bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
	StandingMs   uint64 `json:"standing_ms"`
}

// save moves a job, or saves it where it is, and returns how that went: an error only
// if that is not known.
func (c *cluster) save(ctx context.Context, verb, job string) (migration, error) {
	out, err := c.command(ctx, "/", "gcontrol", "--json", verb, job)
	var answer struct{ Jobs []migration }
	if parseErr := json.Unmarshal([]byte(out), &answer); parseErr != nil || len(answer.Jobs) != 1 {
		return migration{}, errors.Join(fmt.Errorf("the answer to gcontrol %s is %q", verb, out), err)
	}
	m := answer.Jobs[0]
	if m.Done && m.SavedOn == m.GoesOnOn {
		m.Done, m.Error = false, "it resumed on the node where it had been"
	}
	return m, nil
}

// state is a job's state, exit status, and how often it was requeued.
type state struct {
	name     string
	exit     string
	restarts int
}

func (c *cluster) state(ctx context.Context, job string) (state, error) {
	out, err := c.command(ctx, "/", "gqueue", "--noheader", "--states=all", "--jobs="+job, "--Format=State:20,exit_code:10,Restartcnt:10")
	if err != nil {
		return state{}, err
	}
	fields := strings.Fields(out)
	if len(fields) != 3 {
		return state{}, fmt.Errorf("gqueue says %q of job %s", out, job)
	}
	restarts, err := strconv.Atoi(fields[2])
	return state{fields[0], fields[1], restarts}, err
}

// until asks again and again, until it is so.
func until(ctx context.Context, what string, ok func() (bool, error)) error {
	for deadline := time.Now().Add(stepLimit); ; {
		if done, err := ok(); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("in %s it did not happen that %s", stepLimit, what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
