package state

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

var rewrite = flag.Bool("rewrite", false, "write what the dialogues in testdata answer now; then read the difference")

// TestDialogues plays the files in testdata: a command, a line of dashes, what
// it answered, an empty line. Lines that begin with # say why. Every invariant
// is checked after every command.
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no dialogues in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playDialogue(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s answers otherwise now (run with -rewrite and read the difference):\n%s", file, firstDifference(string(text), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n  was: %s\n  now: %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, now %d", len(a), len(b))
}

// dialogue is a state and what its commands have in common.
type dialogue struct {
	t     *testing.T
	state *State
	index uint64
	nowMS int64
	// refused is why the last submission or update never reached the log.
	refused string
}

func playDialogue(t *testing.T, text string) string {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	var out strings.Builder
	answer := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			answer = false
			out.WriteString("\n")
		case answer:
		case strings.HasPrefix(trimmed, "#"):
			out.WriteString(line)
		case trimmed == "----":
			answer = true
		default:
			out.WriteString(line + "----\n" + d.play(trimmed))
		}
	}
	return out.String()
}

// arguments are the words of a command: key=value pairs, and the others.
type arguments struct {
	words  []string
	values map[string]string
}

func parseArguments(line string) (verb string, a arguments) {
	fields := strings.Fields(line)
	a.values = map[string]string{}
	for _, field := range fields[1:] {
		if key, value, pair := strings.Cut(field, "="); pair {
			a.values[key] = strings.ReplaceAll(value, "_", " ")
		} else {
			a.words = append(a.words, field)
		}
	}
	return fields[0], a
}

func (a arguments) number(key string) uint32 {
	n, _ := strconv.ParseUint(a.values[key], 10, 32)
	return uint32(n)
}

func (a arguments) size(key string) uint64 {
	n, _ := strconv.ParseUint(a.values[key], 10, 64)
	return n
}

func (a arguments) is(word string) bool {
	for _, w := range a.words {
		if w == word {
			return true
		}
	}
	return false
}

func (d *dialogue) play(line string) string {
	verb, a := parseArguments(line)
	switch verb {
	case "wait":
		d.nowMS += int64(a.number("seconds")) * 1000
		return ""
	case "jobs":
		return d.jobs()
	case "nodes":
		return d.nodes()
	case "wanted":
		return d.wanted(a.words[0])
	case "snapshot":
		return d.snapshot()
	case "plan":
		return d.plan()
	case "accounts":
		return d.accounts()
	case "charges":
		return d.charges()
	case "sched-accounts":
		return d.schedAccounts()
	case "ages":
		return d.ages()
	case "limits":
		return d.timeLimits(a.words[0])
	case "usage":
		return d.usage()
	case "images":
		return d.images()
	case "staged":
		return d.staged()
	case "copies":
		return d.copies(a.words[0], a.words[1])
	case "needed":
		return d.needed()
	case "losses":
		return d.losses()
	case "late-saves":
		return d.lateSaves()
	case "waits":
		return d.waits()
	case "habit":
		return d.habit(a)
	case "hazard":
		return d.hazard(a)
	case "owner-report":
		return d.ownerReport(a)
	case "networks":
		return d.networks()
	case "lent":
		return d.lent()
	case "reservations":
		return d.reservations()
	case "try-lend":
		return d.tryLend(a)
	case "try-reclaim":
		return d.tryReclaim(a)
	case "restore":
		restored, err := Restore(bytes.NewReader(persisted(d.t, d.state)))
		if err != nil {
			d.t.Fatal(err)
		}
		d.state = restored
		return ""
	}
	command := d.command(verb, a)
	if verb == "account" || verb == "user" || verb == "qos" {
		command = d.changeAccounts(line)
	}
	if command == nil {
		d.t.Fatalf("no such command in a dialogue: %s", line)
	}
	if d.refused != "" {
		text := d.refused
		d.refused = ""
		return "refused before the log: " + text + "\n"
	}
	var id RequestID
	copy(id[:], a.values["request"])
	entry, err := Encode(command, id, d.nowMS)
	if err != nil {
		return err.Error() + "\n"
	}
	d.index++
	result := mustApply(d.t, d.state, d.index, entry)
	if err := d.state.Check(); err != nil {
		d.t.Fatalf("after %q: %v", line, err)
	}
	return describe(&result)
}

func (d *dialogue) command(verb string, a arguments) Command {
	uid, privileged := a.number("by"), a.is("privileged")
	switch verb {
	case "submit":
		return d.submit(a)
	case "cancel":
		return CancelJobs{Targets: d.targets(a), UID: uid, Privileged: privileged, Coordinator: a.values["coordinator"]}
	case "hold":
		return HoldJobs{Targets: d.targets(a), UID: uid, Privileged: privileged, Coordinator: a.values["coordinator"]}
	case "top":
		return d.top(a)
	case "release":
		return ReleaseJobs{Targets: d.targets(a), UID: uid, Privileged: privileged, Coordinator: a.values["coordinator"]}
	case "requeue":
		return RequeueJobs{Targets: d.targets(a), UID: uid, Privileged: privileged}
	case "place":
		return PlaceJobs{Starts: []StartOrder{d.startOrder(a)}}
	case "ready":
		job, epoch := d.alloc(a.words[0])
		return AllocsReady{Allocs: []AllocRef{{job, epoch, a.words[1]}}}
	case "ended":
		return d.ended(a)
	case "register":
		return d.register(a)
	case "drain", "down", "resume", "fence", "delete":
		actions := map[string]NodeAction{"drain": DrainNode, "down": DownNode, "resume": ResumeNode, "fence": FenceNode, "delete": DeleteNode}
		return UpdateNodes{Names: a.words, Action: actions[verb], Reason: a.values["reason"], User: "root"}
	case "evacuate":
		return UpdateNodes{Names: a.words, Action: DrainNode, Evacuate: true, WithinMS: int64(a.number("within")) * 1000, Reason: "test", User: "root", Coordinator: a.values["coordinator"]}
	case "end-evacuations":
		return EndEvacuations{}
	case "leaves", "stays":
		return d.leaves(verb, a)
	case "leave":
		return SaveJobs{Targets: d.targets(a), Privileged: true, Purpose: SaveEvacuation}
	case "lost":
		return NodesLost{Names: a.words}
	case "back":
		return NodesBack{Names: a.words}
	case "policy":
		return d.policy(a)
	case "purge":
		return PurgeJobs{BeforeMS: d.nowMS}
	case "suspend":
		return SuspendJobs{Targets: d.targets(a), UID: uid, Privileged: privileged}
	case "resume-job":
		return ResumeJobs{Targets: d.targets(a), UID: uid, Privileged: privileged}
	case "stands", "moves", "parked":
		job, epoch := d.alloc(a.words[0])
		return AllocsSuspended{Reports: []SuspendReport{{
			Job: job, Epoch: epoch, Node: a.words[1], Number: a.number("number"), Frozen: verb != "moves", Parked: verb == "parked", Freed: freedFromMessage(&pb.HardwareFreed{TookMs: a.number("ms"), LateMs: a.number("late"), Slowest: a.values["slowest"], SlowestMs: a.number("slow")}),
		}}}
	case "continue":
		job, epoch := d.alloc(a.words[0])
		return ContinueJobs{Orders: []ContinueOrder{{job, epoch, a.number("number")}}}
	case "preempt":
		return d.preempt(a)
	case "holes":
		return d.holes(a)
	case "preemption":
		return d.preemption(a)
	case "barrier":
		return Barrier{Term: uint64(a.number("term")), LeaseS: a.number("lease")}
	case "enforce":
		return d.enforced(a)
	case "uhold":
		return HoldJobs{Targets: d.targets(a), UID: uid, Privileged: privileged, AsUser: true}
	case "requeuehold":
		return RequeueJobs{Targets: d.targets(a), UID: uid, Privileged: privileged, Hold: true, SpecialExit: a.is("special"), Incomplete: a.is("incomplete")}
	case "update":
		return d.update(a)
	case "late":
		return EndLateJobs{}
	case "bill":
		return d.bill(a)
	case "reset":
		return ResetUsage{Period: policy.ResetPeriodOf(a.words[0]), DueMS: d.moment(a, "due")}
	case "save", "migrate", "saved", "abandon", "drop", "fail-move", "copied", "gone":
		return d.saves(verb, a)
	case "lend":
		return d.lend(a)
	case "reserve", "change-reservation", "unreserve", "end-reservations":
		return d.reserve(verb, a)
	case "reclaim":
		return d.reclaim(a)
	case "release-nodes":
		c := d.reclaim(a)
		return ReleaseNodes{Names: c.Names, User: c.User, Coordinator: c.Coordinator, Privileged: c.Privileged, Trigger: c.Trigger}
	case "pack":
		return SaveJobs{Targets: d.targets(a), Privileged: true, Purpose: SavePack}
	case "end-reclaims":
		return EndReclaims{}
	case "leases-ended":
		return LeasesEnded{Term: uint64(a.number("term")), Node: a.words[0]}
	}
	return nil
}

func (d *dialogue) submit(a arguments) Command {
	job := &pb.JobSpec{
		Name: a.values["name"], Script: []byte("#!/bin/sh\n"), Hold: a.is("hold"), Requeue: a.is("requeue"),
		Exclusive: a.is("exclusive"), MinNodes: a.number("nodes"), Tasks: a.number("tasks"),
		TasksPerNode: a.number("tasks-per-node"), CpusPerTask: a.number("cpus"), TimeLimitS: a.number("time"), TimeMinS: a.number("time-min"),
		NodeList: a.values["nodelist"], ExcludeNodes: a.values["exclude"], Constraint: a.values["constraint"],
		Nice: int32(a.number("nice")), MemoryPerNodeBytes: a.size("mem"), Dependency: strings.ReplaceAll(a.values["dependency"], " ", "_"),
		Account: a.values["account"], Qos: a.values["qos"], Licenses: a.values["licenses"],
		Reservations: strings.FieldsFunc(a.values["reservation"], func(c rune) bool { return c == ',' }),
	}
	addPlacement(job, a)
	addCheckpoint(job, a)
	addStaging(job, a)
	if image := a.values["container"]; image != "" {
		job.Image, job.Container = "docker://"+image+"@sha256:"+strings.Repeat("0", 64), &pb.ContainerOptions{}
	}
	job.BeginMs, job.DeadlineMs = d.moment(a, "begin"), d.moment(a, "deadline")
	if a.is("kill") {
		job.KillOnInvalidDependency = proto.Bool(true)
	}
	job.Network = map[string]pb.Network{"host": pb.Network_NETWORK_HOST, "private": pb.Network_NETWORK_PRIVATE}[a.values["network"]]
	if list := a.values["partition"]; list != "" {
		job.Partitions = strings.Split(list, ",")
	}
	if gpus := a.number("gpus"); gpus > 0 {
		job.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: gpus, Model: a.values["model"]}}
	}
	if text := a.values["array"]; text != "" {
		array, err := spec.ParseArray(text)
		if err != nil {
			d.t.Fatal(err)
		}
		job.Array = array
	}
	d.refused = ""
	user := "u"
	if name := a.values["user"]; name != "" {
		user = name
	}
	command, err := SubmitFromSpec(job, &pb.Identity{Uid: a.number("by"), User: user})
	if err != nil {
		d.refused = err.Error()
	}
	return command
}

// top reads "top 3:0>-5 4:0>5": jobs with their nice values, former and new.
func (d *dialogue) top(a arguments) Command {
	c := TopJobs{UID: a.number("by"), Privileged: a.is("privileged")}
	for _, word := range a.words {
		if !strings.Contains(word, ":") {
			continue
		}
		var change NiceChange
		if _, err := fmt.Sscanf(word, "%d:%d>%d", &change.Job, &change.From, &change.To); err != nil {
			d.t.Fatalf("%s: %v", word, err)
		}
		c.Changes = append(c.Changes, change)
	}
	return c
}

func (d *dialogue) targets(a arguments) []Target {
	parsed, err := spec.ParseJobTargets(a.words[0])
	if err != nil {
		d.t.Fatal(err)
	}
	var targets []Target
	for _, target := range parsed {
		targets = append(targets, Target{Job: target.Job, Tasks: ranges.FromMessages(target.Tasks)})
	}
	return targets
}

// startOrder reads "place 3 n1:0-1:gpu0 n2*2:2": CPUs, then devices; with two tasks
// on n2.
func (d *dialogue) startOrder(a arguments) StartOrder {
	id, _ := strconv.ParseUint(a.words[0], 10, 32)
	order := StartOrder{Job: uint32(id), Partition: a.values["partition"], Image: a.number("image"), Fills: a.number("fills") > 0, LimitS: a.number("limit")}
	if order.Partition == "" {
		order.Partition = "main"
	}
	for _, word := range a.words[1:] {
		pieces := strings.Split(word, ":")
		alloc := AllocOrder{Node: pieces[0], Tasks: 1, MemoryBytes: a.size("mem")}
		if node, tasks, are := strings.Cut(alloc.Node, "*"); are {
			count, _ := strconv.ParseUint(tasks, 10, 32)
			alloc.Node, alloc.Tasks = node, uint32(count)
		}
		if len(pieces) > 1 {
			ranges, err := spec.ParseArray(pieces[1])
			if err != nil {
				d.t.Fatal(err)
			}
			for _, r := range ranges.Ranges {
				for cpu := r.First; cpu <= r.Last; cpu += r.Step {
					alloc.CPUs = append(alloc.CPUs, cpu)
				}
			}
		}
		for _, device := range pieces[min(len(pieces), 2):] {
			alloc.Devices = append(alloc.Devices, DeviceOrder{ID: device, Shares: 1})
		}
		order.Allocs = append(order.Allocs, alloc)
	}
	return order
}

func (d *dialogue) alloc(word string) (job, epoch uint32) {
	if _, err := fmt.Sscanf(word, "%d.%d", &job, &epoch); err != nil {
		d.t.Fatalf("allocation %q: %v", word, err)
	}
	return job, epoch
}

func (d *dialogue) ended(a arguments) Command {
	job, epoch := d.alloc(a.words[0])
	cause, known := pb.EndCause_value["END_CAUSE_"+strings.ToUpper(strings.ReplaceAll(a.values["cause"], " ", "_"))]
	if !known {
		d.t.Fatalf("no such cause: %q", a.values["cause"])
	}
	return AllocsEnded{Reports: []AllocReport{ReportFromMessage(a.words[1], &pb.AllocEnded{
		Alloc: &pb.AllocId{Job: job, Epoch: epoch}, Cause: pb.EndCause(cause),
		ExitCode: a.number("code"), ExitSignal: a.number("signal"), Detail: a.values["detail"],
		Usage: &pb.Usage{PeakMemoryBytes: a.size("peak"), CpuNs: a.size("cpu")},
	})}}
}

func (d *dialogue) register(a arguments) Command {
	message := &pb.Register{Node: a.words[0], Instance: "i", SentBoottimeNs: int64(a.number("sent")), Inventory: &pb.Inventory{
		Cpus: a.number("cpus"), MemoryBytes: max(a.size("mem"), 1024), BootId: a.values["boot"], Trouble: a.values["trouble"], TmpBytes: a.size("tmp"),
	}}
	for i := range a.number("gpus") {
		message.Inventory.Devices = append(message.Inventory.Devices, &pb.Device{
			Id: fmt.Sprintf("gpu%d", i), Index: i, Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, MemoryBytes: a.size("gpumem"),
		})
	}
	message.Inventory.ParkBounds = parkWords(a.values["parks"])
	boundWords(message.Inventory, a)
	for _, word := range strings.Split(a.values["running"], ",") {
		if word != "" {
			job, epoch := d.alloc(word)
			message.Running = append(message.Running, &pb.RunningAlloc{
				Alloc: &pb.AllocId{Job: job, Epoch: epoch}, Ready: !a.is("unready"),
				SuspendNumber: a.number("number"), Suspended: a.is("stands"), Parked: a.is("parked"), Frozen: a.is("lease-over"),
			})
		}
	}
	return RegisterFromMessage(message)
}
