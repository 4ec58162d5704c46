package pid1

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

func TestBatch(t *testing.T) {
	for _, c := range []struct {
		name, script string
		argv         []string
		want         Exit
		status       int
		out          string
	}{
		{name: "ok", script: "echo hello; echo err >&2", out: "hello\nerr\n"},
		{name: "code", script: "exit 7", want: Exit{Code: 7}, status: 7},
		{name: "signal", script: "kill -TERM $$", want: Exit{Signal: 15}, status: 143},
		{name: "environment", script: `echo $X $((SLURM_TASK_PID == $$)) $(umask)`, out: "1 1 0027\n"},
		{name: "stdin is empty", script: "cat", out: ""},
		{name: "no such program", argv: []string{"/nonexistent/x"}, want: Exit{Code: 127}, status: 127,
			out: "error: execve(): /nonexistent/x: No such file or directory\n"},
		{name: "not executable", argv: []string{"/etc/passwd"}, want: Exit{Code: 126}, status: 126,
			out: "error: execve(): /etc/passwd: Permission denied\n"},
		{name: "nohup survivors are killed", script: "setsid sleep 1000 & exec true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := shell(c.script)
			if c.argv != nil {
				config.Batch.Argv = c.argv
			}
			config.Batch.Env = step.Strings{"X=1"}
			j := start(t, config)
			status, exit := j.end()
			started := exit.StartMS != 0
			if started != (c.argv == nil) || exit.EndMS == 0 {
				t.Errorf("times are %d, %d", exit.StartMS, exit.EndMS)
			}
			exit.StartMS, exit.EndMS, exit.Detail = 0, 0, ""
			if exit != c.want || status != c.status {
				t.Errorf("exit %+v status %d, want %+v %d", exit, status, c.want, c.status)
			}
			if out := j.read("out"); out != c.out {
				t.Errorf("output %q, want %q", out, c.out)
			}
		})
	}
}

func TestBatchWaits(t *testing.T) {
	config := shell("echo ran")
	config.Batch.Wait = true
	j := start(t, config)
	if err := j.dial().Signal(15, step.ScopeBatch, 0); err == nil {
		t.Error("a script that has not started was signalled")
	}
	if out := j.read("out"); out != "" {
		t.Errorf("ran early: %q", out)
	}
	client := j.dial()
	for range 2 {
		if err := client.StartBatch(); err != nil {
			t.Fatal(err)
		}
	}
	if _, exit := j.end(); exit.Code != 0 || j.read("out") != "ran\n" {
		t.Errorf("exit %+v, output %q", exit, j.read("out"))
	}
}

func TestMissingDirectory(t *testing.T) {
	j := start(t, &Config{})
	client := j.dial()
	launch := launchOf([]string{"/bin/pwd"}, 0)
	launch.Cwd = "/nonexistent"
	out, _, _ := run(t, client, launch)
	const complaint = "error: couldn't chdir to `/nonexistent': No such file or directory: going to /tmp instead\n"
	if out[0] != complaint+"/tmp\n" && out[0] != "/tmp\n"+complaint {
		t.Errorf("output %q", out[0])
	}
}
