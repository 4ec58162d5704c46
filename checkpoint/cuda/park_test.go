package cuda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func (m *machine) want(state State) {
	m.t.Helper()
	for pid, is := range m.states() {
		if is != state {
			m.t.Errorf("process %d is %s, not %s", pid, is, state)
		}
	}
}

// All are locked before one is checkpointed, and restored before one is
// unlocked; processes without CUDA are left alone.
func TestParkAndUnpark(t *testing.T) {
	m := newMachine(t, Running, Running, Running)
	m.process(200)
	parked, err := m.Park(t.Context(), append([]int{999}, m.pids...)) // 999 has ended
	if err != nil {
		t.Fatal(err)
	}
	m.want(Checkpointed)
	want := "lock 100, lock 101, lock 102, checkpoint 100, checkpoint 101, checkpoint 102"
	if got := m.log(); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	if err := m.Unpark(t.Context(), parked, nil); err != nil {
		t.Fatal(err)
	}
	m.want(Running)
	want += ", restore 102, restore 101, restore 100, unlock 102, unlock 101, unlock 100"
	if got := m.log(); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	if m.read("count.init") != "1\n" {
		t.Errorf("cuInit was called %s times: one helper does it all", m.read("count.init"))
	}
	// What runs already is not touched.
	if err := m.Unpark(t.Context(), parked, nil); err != nil || m.log() != want {
		t.Errorf("%v: %s", err, m.log())
	}
}

// What was parked is found again in a restored tree, and resumes on other GPUs.
func TestUnparkElsewhere(t *testing.T) {
	m := newMachine(t, Running, Running)
	parked, err := m.Park(t.Context(), m.pids)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(parked)
	if err != nil {
		t.Fatal(err)
	}
	var read Parked
	if err := json.Unmarshal(kept, &read); err != nil {
		t.Fatal(err)
	}
	// The same numbers inside, others on the host.
	for i, pid := range slices.Clone(m.pids) {
		m.add(pid+300, Checkpointed)
		m.write(fmt.Sprintf("NSpid:\t%d\t%d\n", pid+300, 10+i), "proc", fmt.Sprint(pid+300), "status")
	}
	if _, err := read.In(m.proc, []int{400}); !errors.Is(err, ErrGone) {
		t.Errorf("a process that is missing: %v", err)
	}
	restored, err := read.In(m.proc, []int{400, 401, 999})
	if err != nil {
		t.Fatal(err)
	}
	m.reset()
	gpus := map[string]string{
		"GPU-00112233-4455-6677-8899-aabbccddeeff": "GPU-10112233-4455-6677-8899-aabbccddee01",
		"GPU-f0112233-4455-6677-8899-aabbccddeeff": "GPU-20112233-4455-6677-8899-aabbccddee02",
	}
	if err := m.Unpark(t.Context(), restored, gpus); err != nil {
		t.Fatal(err)
	}
	if states := m.states(); states[400] != Running || states[401] != Running || states[100] != Checkpointed {
		t.Errorf("%v", states)
	}
	line := "00112233445566778899aabbccddeeff>1001 f0112233445566778899aabbccddeeff>2002 \n"
	if got := m.read("pairs"); got != line+line {
		t.Errorf("the driver was told %q", got)
	}
	if err := m.Unpark(t.Context(), restored, map[string]string{"gpu0": "gpu1"}); err == nil || !strings.Contains(err.Error(), "not the UUID") {
		t.Errorf("GPUs without UUIDs: %v", err)
	}
}

// Nothing that was given back to a process may be used before all have it.
func TestNoneRunsBeforeAll(t *testing.T) {
	m := newMachine(t, Running, Running, Running)
	parked, err := m.Park(t.Context(), m.pids)
	if err != nil {
		t.Fatal(err)
	}
	m.fault("restore 0 fail 2")
	m.write("restore 1 x\n"+"restore 2 fail 2\nrestore 3 fail 2\nrestore 4 fail 2\n", "fault")
	err = m.Unpark(t.Context(), parked, nil)
	var stuck *StuckError
	if !errors.As(err, &stuck) || len(stuck.Stuck) != 3 {
		t.Fatalf("%v", err)
	}
	if states := m.states(); states[102] != Locked || states[101] != Checkpointed || states[100] != Locked {
		t.Errorf("%v", states)
	}
	for _, word := range []string{"process 100 is locked", "process 101 is checkpointed", "gcancel", "(2)"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	m.reset()
	if err := m.Unpark(t.Context(), parked, nil); err != nil {
		t.Fatal(err)
	}
	m.want(Running)
}

// Every single fault at every call, in parking and in unparking: afterwards
// all processes run, or those that do not are named.
func TestEveryFault(t *testing.T) {
	for _, call := range []string{"init", "state", "lock", "checkpoint", "restore", "unlock"} {
		for _, action := range []string{"fail 801", "crash", "hang", "latefail 999", "latecrash", "latehang", "lie", "fault", "end"} {
			if late := strings.HasPrefix(action, "late") || action == "lie" || action == "fault" || action == "end"; late && (call == "init" || call == "state") {
				continue
			}
			t.Run(call+" "+action, func(t *testing.T) {
				if testing.Short() && strings.HasSuffix(action, "hang") {
					t.Skip("needs a while: each call that hangs is waited for")
				}
				t.Parallel() // they wait more than they work
				m := newMachine(t, Running, Running)
				last := 3
				if strings.HasSuffix(action, "hang") {
					last = 1
				}
				for nth := 1; nth <= last; nth++ {
					m.fault(fmt.Sprintf("%s %d %s", call, nth, action))
					m.round()
					m.endHelpers()
					for _, pid := range m.pids { // those that were ended or have failed are others now
						if _, err := os.Stat(m.path("proc", fmt.Sprint(pid))); err == nil {
							m.set(pid, Running)
						}
					}
					m.reset()
				}
			})
		}
	}
}

// Faults at random, several at once, also in undoing.
func TestRandomFaults(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		random := rand.New(rand.NewSource(int64(seed)))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, make([]State, 1+random.Intn(4))...)
			for round := range 3 {
				var lines []string
				for range random.Intn(5) {
					call := []string{"state", "lock", "checkpoint", "restore", "unlock"}[random.Intn(5)]
					action := []string{"fail 999", "crash", "latefail 1", "latecrash", "lie", "fault", "end"}[random.Intn(7)]
					if call == "state" {
						if action = []string{"fail 999", "crash"}[random.Intn(2)]; round > 0 {
							continue // before something was done nobody knows what was left
						}
					}
					lines = append(lines, fmt.Sprintf("%s %d %s", call, random.Intn(8), action))
				}
				m.fault(lines...)
				if !m.round() {
					t.Logf("with %q", lines)
				}
				m.reset()
				for pid := range m.states() { // a former attempt was cut off
					m.set(pid, []State{Running, Running, Locked, Checkpointed}[random.Intn(4)])
				}
			}
			m.endHelpers()
		})
	}
}

// round parks and unparks, and checks what that left. It answers whether all
// was well.
func (m *machine) round() bool {
	m.t.Helper()
	failed := m.t.Failed()
	parked, err := m.Park(context.Background(), m.pids)
	if err == nil {
		for _, p := range parked.Processes {
			if is, there := m.states()[p.PID]; there && is != Checkpointed {
				m.t.Errorf("process %d is %s and said to be parked", p.PID, is)
			}
		}
		err = m.Unpark(context.Background(), parked, nil)
		if stuck := (*StuckError)(nil); err != nil && !errors.As(err, &stuck) {
			m.t.Errorf("unparking failed and names nobody: %v", err)
		}
	}
	m.wantTold(err)
	return failed == m.t.Failed()
}

// wantTold checks that an error names exactly those that do not run.
func (m *machine) wantTold(err error) {
	m.t.Helper()
	told := map[int]Stuck{}
	if stuck := (*StuckError)(nil); errors.As(err, &stuck) {
		for _, s := range stuck.Stuck {
			told[s.PID] = s
		}
	}
	for pid, is := range m.states() {
		s, named := told[pid]
		delete(told, pid)
		switch {
		case is != Running && !named:
			m.t.Errorf("process %d is %s, and nobody is told: %v", pid, is, err)
		case named && !s.Unknown && s.State != is:
			m.t.Errorf("process %d is %s and said to be %s", pid, is, s.State)
		}
	}
	if len(told) > 0 {
		m.t.Errorf("named and not there: %v", slices.Collect(maps.Keys(told)))
	}
}

// A process that ends meanwhile is nobody's fault.
func TestProcessEnds(t *testing.T) {
	m := newMachine(t, Running, Running, Running)
	m.fault("lock 2 end", "checkpoint 1 end")
	parked, err := m.Park(t.Context(), m.pids)
	if err != nil || len(parked.Processes) != 1 || parked.Processes[0].PID != 102 {
		t.Fatalf("%v, %v", parked, err)
	}
	m.reset()
	// Another has got its number.
	m.write("102 (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 99999 0 0", "proc", "102", "stat")
	if err := m.Unpark(t.Context(), parked, nil); err != nil || m.log() != "" {
		t.Errorf("%v: %s", err, m.log())
	}
}

// The library alone is no use of CUDA; a device without CUDA is in the way.
func TestNotCUDA(t *testing.T) {
	m := newMachine(t, Running)
	m.process(150)
	m.write("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15\n", "proc", "150", "maps")
	parked, err := m.Park(t.Context(), m.pids)
	if err != nil || len(parked.Processes) != 1 {
		t.Fatalf("%v, %v", parked, err)
	}
	if err := m.Unpark(t.Context(), parked, nil); err != nil {
		t.Fatal(err)
	}
	m.process(160)
	m.open(160, 3, "/dev/nvidia0")
	_, err = m.Park(t.Context(), m.pids)
	var holds *HoldsError
	if !errors.As(err, &holds) || holds.PID != 160 || Lasts(err) || !strings.Contains(err.Error(), "process 160 has an NVIDIA device open") {
		t.Errorf("%v", err)
	}
	m.want(Running)
}

// A refusal that will be the same next time is told from one that may pass.
func TestLasts(t *testing.T) {
	for name, row := range map[string]struct {
		fault string
		want  bool
	}{
		"memory that the driver cannot take": {"checkpoint 0 fail 801", true},
		"no permission":                      {"lock 0 fail 800", true},
		"no GPU":                             {"init 0 fail 100", true},
		"CUDA has failed there":              {"checkpoint 2 fault", true},
		"no memory for it now":               {"checkpoint 0 fail 2", false},
		"work that does not end in time":     {"lock 0 fail 600", false},
		"a helper that dies":                 {"checkpoint 1 crash", false},
	} {
		m := newMachine(t, Running, Running)
		m.fault(row.fault)
		_, err := m.Park(t.Context(), m.pids)
		if err == nil || Lasts(err) != row.want {
			t.Errorf("%s: lasts %v: %v", name, Lasts(err), err)
		}
		m.endHelpers()
	}
	if Lasts(nil) {
		t.Error("nothing lasts")
	}
}

// A cancelled park is undone.
func TestCancelledPark(t *testing.T) {
	m := newMachine(t, Running, Running)
	m.fault("checkpoint 2 hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("the job is cancelled")) })
	if _, err := m.Park(ctx, m.pids); err == nil {
		t.Fatal("parked")
	}
	m.want(Running)
}

// Drivers that cannot do it are told apart.
func TestNoSuchDriver(t *testing.T) {
	m := newMachine(t, Running)
	m.fault("init 0 fail 100")
	if _, err := m.Start(t.Context()); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "CUDA_ERROR_NO_DEVICE (100)") {
		t.Errorf("without a GPU: %v", err)
	}
	m.reset()
	if version, err := m.Start(t.Context()); err != nil || version != 13000 {
		t.Errorf("%d, %v", version, err)
	}
	m.Close()
	m.driver.library = "/nowhere/libcuda.so.1"
	if _, err := m.Park(t.Context(), m.pids); !errors.Is(err, ErrNoDriver) {
		t.Errorf("without a library: %v", err)
	}
	m.driver.library = "libm.so.6"
	if _, err := m.Start(t.Context()); !errors.Is(err, ErrNoDriver) {
		t.Errorf("with another library: %v", err)
	}
	m.driver.command = []string{"/nowhere/gnoded"}
	if _, err := m.Start(t.Context()); !errors.Is(err, ErrHelper) {
		t.Errorf("without a program: %v", err)
	}
	m.want(Running)
}

// A machine without GPUs has nothing to park.
func TestNone(t *testing.T) {
	parked, err := None{}.Park(t.Context(), []int{os.Getpid()})
	if err != nil || len(parked.Processes) != 0 || (None{}).Unpark(t.Context(), parked, nil) != nil {
		t.Errorf("%v, %v", parked, err)
	}
	if err := (None{}).Unpark(t.Context(), Parked{Processes: []Process{{PID: 1}}}, nil); !errors.Is(err, ErrNoDriver) {
		t.Errorf("%v", err)
	}
}
