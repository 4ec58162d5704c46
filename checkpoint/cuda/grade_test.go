package cuda

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
)

func TestObstacles(t *testing.T) {
	users := []Process{{PID: 7, Devices: true}, {PID: 8}, {PID: 9, Devices: true}}
	good := Facts{Driver: "610.43.02", GPUs: []GPU{{UUID: "GPU-1", Model: "h100"}}, Used: map[int]uint64{7: 3 << 30, 9: 1 << 30, 55: 9 << 30}, FreeBytes: 8 << 30}
	for name, c := range map[string]struct {
		change func(*Facts, []Process)
		want   string // property: words of it
	}{
		"nothing":      {func(*Facts, []Process) {}, ""},
		"old driver":   {func(f *Facts, _ []Process) { f.Driver = "550.163.01" }, "driver: 550.163.01 570 580"},
		"shared":       {func(f *Facts, _ []Process) { f.Driver = "580.65.06" }, "CUDA IPC: 2 580.65.06 610 --checkpoint=app"},
		"no driver":    {func(f *Facts, _ []Process) { f.Driver = "" }, "driver: 570"},
		"MIG":          {func(f *Facts, _ []Process) { f.GPUs[0].MIG = true }, "MIG: GPU-1 slices"},
		"MPS":          {func(_ *Facts, p []Process) { p[2].MPS = true }, "MPS: process 9"},
		"little room":  {func(f *Facts, _ []Process) { f.FreeBytes = 3 << 30 }, "host memory: 4096 MiB 3072 MiB 1024 MiB --mem"},
		"unknown room": {func(f *Facts, _ []Process) { f.FreeBytes = 0 }, ""},
		"no user":      {func(f *Facts, p []Process) { f.Driver = "470.1"; p[0].Devices, p[2].Devices = false, false }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts, processes := good, append([]Process{}, users...)
			facts.GPUs = append([]GPU{}, good.GPUs...)
			c.change(&facts, processes)
			found := Obstacles(facts, processes)
			property, words, _ := strings.Cut(c.want, ": ")
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Property != property || found[0].Remedy == "" {
				t.Fatalf("%+v", found)
			}
			for word := range strings.FieldsSeq(words) {
				if !strings.Contains(found[0].Reason+found[0].Remedy, word) {
					t.Errorf("%+v does not say %q", found[0], word)
				}
			}
		})
	}
}

func TestRemap(t *testing.T) {
	gpus := func(words ...string) (list []GPU) {
		for _, word := range words {
			id, model, _ := strings.Cut(word, ":")
			list = append(list, GPU{UUID: id, Model: strings.TrimSuffix(model, "+mig"), MIG: strings.HasSuffix(model, "+mig")})
		}
		return list
	}
	for _, c := range []struct {
		before, now []GPU
		driver      string
		want        string
	}{
		{gpus("a:h100", "b:h100"), gpus("b:h100", "a:h100"), "570.1", ""},
		{gpus("a:h100", "b:h100"), gpus("b:h100", "c:h100"), "580.1", "a=c b=b"},
		{gpus("a:h100", "b:a100"), gpus("c:a100", "d:h100"), "610.1", "a=d b=c"},
		{gpus("a:h100"), gpus("c:h100"), "575.1", "driver"},
		{gpus("a:h100"), gpus("c:h200"), "580.1", "GPU model"},
		{gpus("a:h100"), gpus("c:h100+mig"), "580.1", "GPU model"},
		{gpus("a:h100", "b:h100"), gpus("a:h100"), "580.1", "GPUs"},
		{nil, nil, "", ""},
	} {
		pairs, obstacles := Remap(c.before, c.now, c.driver)
		var got []string
		for _, before := range c.before {
			if to, ok := pairs[before.UUID]; ok {
				got = append(got, before.UUID+"="+to)
			}
		}
		for _, o := range obstacles {
			got = append(got, o.Property)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v with %s: %v, want %s", c.before, c.now, c.driver, got, c.want)
		}
		if len(obstacles) > 0 && len(maps.Clone(pairs)) > 0 {
			t.Errorf("%v and %v", pairs, obstacles)
		}
	}
}

func TestParseUUID(t *testing.T) {
	id, err := parseUUID("GPU-00112233-4455-6677-8899-AABBccddeeff")
	if err != nil || fmt.Sprintf("%x", id) != "00112233445566778899aabbccddeeff" {
		t.Errorf("%x, %v", id, err)
	}
	for _, text := range []string{"", "gpu0", "00112233-4455-6677-8899-aabbccddeeff", "GPU-0011223-34455-6677-8899-aabbccddeeff", "GPU-0011223g-4455-6677-8899-aabbccddeeff", "MIG-00112233-4455-6677-8899-aabbccddeeff"} {
		if _, err := parseUUID(text); err == nil {
			t.Errorf("%q is a UUID", text)
		}
	}
}

// Users of CUDA among made-up processes, and this one among the real.
func TestUsers(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir()}
	for pid := 100; pid < 106; pid++ {
		m.process(pid)
	}
	m.open(101, 3, "/dev/nvidia12")
	m.open(102, 3, "/dev/nvidia-modeset")
	m.open(102, 4, "/home/ann/dev/nvidiactl")
	m.write("7f00-7f01 r-xp 0 08:01 1 /opt/libcuda.so.1\n", "proc", "103", "maps")
	m.open(104, 3, "/dev/nvidiactl")
	m.write("A=1\x00CUDA_MPS_PIPE_DIRECTORY=/var/mps\x00", "proc", "104", "environ")
	m.write("", "proc", "104", "root", "var", "mps", "control")
	users, err := Users(m.path("proc"), []int{105, 104, 103, 102, 101, 100, 999, 104})
	want := "[{101 11 7101 true false} {103 13 7103 false false} {104 14 7104 true true}]"
	if err != nil || fmt.Sprint(users) != want {
		t.Errorf("%v, %v\nwant %s", users, err, want)
	}
	if users, err := Users("/proc", []int{os.Getpid(), os.Getppid()}); err != nil || len(users) != 0 {
		t.Errorf("%v, %v", users, err)
	}
	self, err := Parked{Processes: []Process{{Inside: os.Getpid()}}}.In("/proc", []int{os.Getpid()})
	if err != nil || len(self.Processes) != 1 || !self.Processes[0].there("/proc") {
		t.Errorf("%v, %v", self, err)
	}
}
