package noded

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// fakeMeter answers what a test wants.
type fakeMeter struct {
	gpu.Source
	uses  map[string][]gpu.ProcessUse
	asked map[string]int
}

func (f *fakeMeter) Measure(id string) ([]gpu.ProcessUse, error) {
	f.asked[id]++
	uses, ok := f.uses[id]
	if !ok {
		return nil, fmt.Errorf("GPU %s: %w", id, gpu.ErrNotMeasured)
	}
	return uses, nil
}

// fakeProcess is one in a directory like that of proc(5).
func fakeProcess(t *testing.T, proc string, pid int, group, environ string) {
	t.Helper()
	dir := filepath.Join(proc, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cgroup": "3:cpu:/other\n0::" + group + "\n", "environ": environ} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGPUUse(t *testing.T) {
	meter := &fakeMeter{uses: map[string][]gpu.ProcessUse{
		"a": {{PID: 1, Percent: 90, MemoryBytes: 4 << 30}, {PID: 2, Percent: 5, MemoryBytes: 1 << 30}},
		"b": {{PID: 3, Percent: 40, MemoryBytes: 2 << 30}, {PID: 9, Percent: 99}},
	}, asked: map[string]int{}}
	g := newGPUUse(meter, "/gleaner/n1", slog.New(slog.DiscardHandler))
	g.proc = t.TempDir()
	fakeProcess(t, g.proc, 1, "/gleaner/n1/7.1/job", "A=1\x00SLURM_STEP_ID=2\x00")
	fakeProcess(t, g.proc, 2, "/gleaner/n1/7.1", "SLURM_STEP_ID=none\x00")         // of the script
	fakeProcess(t, g.proc, 3, "/gleaner/n1/7.1/job/deeper", "SLURM_STEP_ID=2\x00") // the same step
	fakeProcess(t, g.proc, 9, "/user.slice/gleaner/n1/7.1", "SLURM_STEP_ID=2\x00") // only looks like it
	held := map[string][]string{"7.1": {"a", "b"}, "8.1": {"c"}, "10.1": {"a"}}
	g.measure(held)
	if fmt.Sprint(meter.asked) != "map[a:1 b:1 c:1]" {
		t.Errorf("asked %v", meter.asked)
	}
	meter.uses["a"], meter.uses["b"] = []gpu.ProcessUse{{PID: 1, Percent: 20, MemoryBytes: 6 << 30}}, nil
	g.measure(held)
	if got, want := nowOf(g), fmt.Sprintf("2 20 6 130 6|%d 20 6 135 7", uint32(step.BatchStep)); got != want {
		t.Errorf("uses %s, want %s", got, want)
	}
	held["7.1"] = nil // its GPUs are taken from it: that is not idleness
	g.measure(held)

	result := &pb.AllocEnded{StartMs: 5, EndMs: 6, Steps: &pb.NodeSteps{Steps: []*pb.StepPart{{Step: 2, Name: "train"}, {Step: 3, Name: "other"}}}}
	g.tell(registry.Key{Job: 7, Epoch: 1}, result)
	var got []string
	for _, part := range result.Steps.Steps {
		got = append(got, fmt.Sprint(part.GetStep(), part.GetGpuSamples(), part.GetSumGpuPercent(), part.GetMostGpuPercent(), part.GetPeakGpuMemoryBytes()>>30))
	}
	want := fmt.Sprintf("2 2 150 130 6|3 0 0 0 0|%d 2 155 135 7", uint32(step.BatchStep))
	if strings.Join(got, "|") != want {
		t.Errorf("told %s, want %s", strings.Join(got, "|"), want)
	}
	again := &pb.AllocEnded{}
	for _, key := range []registry.Key{{Job: 7, Epoch: 1}, {Job: 8, Epoch: 1}} { // told; cannot be measured
		if g.tell(key, again); again.Steps != nil {
			t.Errorf("%v told %v", key, again.Steps)
		}
	}
	g.tell(registry.Key{Job: 10, Epoch: 1}, again) // idle all the time, which was measured
	if part := again.GetSteps().GetSteps(); len(part) != 1 || part[0].GetGpuSamples() != 3 || part[0].GetMostGpuPercent() != 0 {
		t.Errorf("the idle one told %v", part)
	}
	g.measure(map[string][]string{"11.1": {"a"}})
	g.measure(map[string][]string{"12.1": {"a"}})
	if len(g.allocs) != 1 || g.allocs["12.1"] == nil {
		t.Errorf("kept %v", g.allocs)
	}
	if newGPUUse(gpu.FromConfiguration(nil), "/gleaner/n1", slog.Default()) != nil {
		t.Error("GPUs named in a configuration are measured")
	}
	var none *gpuUse
	none.tell(registry.Key{}, again)
}

// nowOf is what 7.1 uses now, and has used.
func nowOf(g *gpuUse) string {
	var got []string
	for _, part := range g.now(registry.Key{Job: 7, Epoch: 1}).GetSteps() {
		got = append(got, fmt.Sprint(part.GetStep(), part.GetGpuPercent(), part.GetGpuMemoryBytes()>>30, part.GetMostGpuPercent(), part.GetPeakGpuMemoryBytes()>>30))
	}
	return strings.Join(got, "|")
}

// A step whose processes have left its GPUs uses none now, whatever it used earlier.
func TestGPUUseNow(t *testing.T) {
	meter := &fakeMeter{uses: map[string][]gpu.ProcessUse{"a": {{PID: 1, Percent: 90, MemoryBytes: 4 << 30}}}, asked: map[string]int{}}
	g := newGPUUse(meter, "/gleaner/n1", slog.New(slog.DiscardHandler))
	g.proc = t.TempDir()
	fakeProcess(t, g.proc, 1, "/gleaner/n1/7.1/job", "SLURM_STEP_ID=2\x00")
	if got := nowOf(g); got != "" {
		t.Errorf("before the first look: %s", got)
	}
	for _, want := range []string{"2 90 4 90 4|%d 90 4 90 4", "2 0 0 90 4|%d 0 0 90 4"} {
		g.measure(map[string][]string{"7.1": {"a"}})
		if got := nowOf(g); got != fmt.Sprintf(want, uint32(step.BatchStep)) {
			t.Errorf("uses %s, want %s", got, want)
		}
		meter.uses["a"] = nil
	}
	var none *gpuUse
	if none.now(registry.Key{Job: 7, Epoch: 1}) != nil {
		t.Error("a node that measures nothing says what is used")
	}
}

// What an allocation used is told with its end.
func TestGPUUseIsTold(t *testing.T) {
	_, s, shims, n := setUp(t)
	meter := &fakeMeter{uses: map[string][]gpu.ProcessUse{"g1": {{PID: 1, Percent: 70, MemoryBytes: 1 << 30}}}, asked: map[string]int{}}
	use := newGPUUse(meter, "/gleaner/n1", slog.New(slog.DiscardHandler))
	use.proc = t.TempDir()
	fakeProcess(t, use.proc, 1, "/gleaner/n1/12.1", "")
	n.agent.mu.Lock()
	n.agent.machine.use = use
	n.agent.mu.Unlock()
	order := startOrder(12, 1)
	allocationOf(order).Devices = devices("g1")
	s.start(order)
	shim := shims.get(12, 1)
	n.agent.measureGPUs() // it does not run yet: that is not idleness
	shim.ready()
	s.ready()
	n.agent.measureGPUs()
	asked := &pb.Connect{Alloc: order.Alloc, Channel: "x", Client: true, Use: true, Measured: &pb.NodeSteps{Steps: []*pb.StepPart{{GpuPercent: 1}}}}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: asked}})
	eventually(t, "the tunnel is joined", func() bool { return shim.count("join") == 1 })
	if got := shim.connects[0].GetMeasured().GetSteps(); len(got) != 1 || got[0].GetStep() != step.BatchStep || got[0].GetGpuPercent() != 70 || got[0].GetGpuMemoryBytes() != 1<<30 || got[0].GetGpuSamples() != 1 {
		t.Errorf("a client that asks is told %v", got)
	}
	asked.Use = false
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: asked}})
	eventually(t, "the tunnel is joined", func() bool { return shim.count("join") == 2 })
	if got := shim.connects[1].GetMeasured(); got != nil {
		t.Errorf("a client that does not ask is told %v", got)
	}
	shim.exit(0)
	part := s.ended().GetSteps().GetSteps()
	if len(part) != 1 || part[0].GetStep() != step.BatchStep || part[0].GetGpuSamples() != 1 || part[0].GetSumGpuPercent() != 70 || part[0].GetPeakGpuMemoryBytes() != 1<<30 {
		t.Errorf("told %v", part)
	}
	n.agent.measureGPUs()
	if meter.asked["g1"] != 1 {
		t.Errorf("asked %d times for a GPU that one job held for one sample", meter.asked["g1"])
	}
}
