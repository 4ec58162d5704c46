package spec

import (
	"math/rand/v2"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestParseArray(t *testing.T) {
	for _, test := range []struct {
		in, want string
		tasks    uint32
	}{
		{"0", "0", 1},
		{"0-9", "0-9", 10},
		{"0-9:2,20%4", "0-8:2,20%4", 6},
		{"0-15:4", "0-12:4", 4},
		{"[0-9]%2", "0-9%2", 10},
		{"[0-9%2]", "0-9%2", 10},
		{"5,1,3,4", "1,3-5", 4},
		{"1, 3,", "1,3", 2},
		{"1-5,3", "1-5", 5},
		{"1-5,4-9", "1-9", 9},
		{"0-9:2,1-9:2", "0-9", 10},
		{"0,2,4", "0-4:2", 3},
		{"0-2:2", "0,2", 2},
		{"0-4:2,6", "0-6:2", 4},
		{"3,5-9:2", "3-9:2", 4},
		{"1-3%0", "1-3", 3},
		{"0-4000000", "0-4000000", 4000001},
		{"5-6:4294967295", "5", 1},
		{"5-6:4294967295,4-7:4294967295", "4-5", 2},
	} {
		array, err := ParseArray(test.in)
		if err != nil {
			t.Errorf("ParseArray(%q): %v", test.in, err)
			continue
		}
		got := FormatArray(array.GetRanges(), array.GetMaxRunning())
		if got != test.want || CountTasks(array.GetRanges()) != test.tasks {
			t.Errorf("ParseArray(%q) = %s with %d tasks; want %s with %d", test.in, got, CountTasks(array.GetRanges()), test.want, test.tasks)
		}
		if err := CheckArray(array); err != nil {
			t.Errorf("CheckArray(%s): %v", got, err)
		}
	}
	for _, test := range []struct{ in, want string }{
		{"", "not an index"},
		{"a", "not an index"},
		{"1-", "not an index"},
		{"1:2", "not an index"},
		{"1-5:0", "at least 1"},
		{"5-1", "type 1-5"},
		{"1-5%x", "at once"},
		{"[1-5", "not closed"},
		{"-1", "not an index"},
		{"0-4000001", "too high"},
		{"99999999999", "too high"},
		{"0-4000000,0-4000000,0-4000000", "over and over"},
		{strings.Repeat("1,", 5000), "too long"},
		{"0-3999999:2,1-3999999:3", "too long"},
	} {
		if _, err := ParseArray(test.in); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseArray(%.40q): %v, want an error about %q", test.in, err, test.want)
		}
	}
}

// members is the set that a list of ranges describes, task by task.
func members(ranges []*pb.ArrayRange) map[uint32]bool {
	set := make(map[uint32]bool)
	for _, r := range ranges {
		for i := r.GetFirst(); i <= r.GetLast(); i += r.GetStep() {
			set[i] = true
		}
	}
	return set
}

func randomRanges(random *rand.Rand) []*pb.ArrayRange {
	ranges := make([]*pb.ArrayRange, 1+random.IntN(4))
	for i := range ranges {
		first := random.Uint32N(40)
		ranges[i] = &pb.ArrayRange{First: first, Last: first + random.Uint32N(30), Step: 1 + random.Uint32N(5)}
	}
	return ranges
}

func checkSet(t *testing.T, what string, ranges []*pb.ArrayRange, want map[uint32]bool) {
	t.Helper()
	if got := CountTasks(ranges); int(got) != len(want) {
		t.Fatalf("%s: %s has %d tasks, want %d", what, FormatArray(ranges, 0), got, len(want))
	}
	for i := range uint32(100) {
		if ContainsTask(ranges, i) != want[i] {
			t.Fatalf("%s: task %d of %s: want %v", what, i, FormatArray(ranges, 0), want[i])
		}
	}
	if again := NormalizeRanges(ranges); FormatArray(again, 0) != FormatArray(ranges, 0) {
		t.Fatalf("%s: %s is not normal, it becomes %s", what, FormatArray(ranges, 0), FormatArray(again, 0))
	}
}

func TestTaskSetsAgainstPlainSets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b := NormalizeRanges(randomRanges(random)), NormalizeRanges(randomRanges(random))
		setA, setB := members(a), members(b)
		checkSet(t, "normal", a, setA)
		both := make(map[uint32]bool)
		for i := range setA {
			if setB[i] {
				both[i] = true
			}
		}
		checkSet(t, "intersection", NormalizeRanges(Intersect(a, b)), both)
		if len(Intersect(a, b)) != len(NormalizeRanges(Intersect(a, b))) {
			t.Fatalf("the intersection of %s and %s is not normal: %s", FormatArray(a, 0), FormatArray(b, 0), FormatArray(Intersect(a, b), 0))
		}
		before := FormatArray(a, 0)
		gone := random.Uint32N(70)
		without := members(a)
		delete(without, gone)
		checkSet(t, "removal", NormalizeRanges(RemoveTask(a, gone)), without)
		if FormatArray(a, 0) != before {
			t.Fatalf("removing %d changed the argument from %s to %s", gone, before, FormatArray(a, 0))
		}
	}
}

func TestRemoveTaskStaysShort(t *testing.T) {
	ranges := []*pb.ArrayRange{{First: 0, Last: 9999, Step: 1}}
	for i := uint32(1); i < 10000; i += 2 {
		ranges = RemoveTask(ranges, i)
	}
	if got := FormatArray(ranges, 0); got != "0-9998:2" {
		t.Errorf("without the odd tasks: %.60s", got)
	}
	for {
		first, any := FirstTask(ranges)
		if !any {
			break
		}
		if ranges = RemoveTask(ranges, first); len(ranges) > 2 {
			t.Fatalf("taking tasks from the front leaves %s", FormatArray(ranges, 0))
		}
	}
}

func TestNormalizeRangesIsBounded(t *testing.T) {
	wild := []*pb.ArrayRange{{First: 0, Last: Unlimited, Step: 1}, {First: 7, Last: Unlimited, Step: Unlimited}, {First: 9, Last: 3}, nil, {First: 5, Last: 5}}
	if got := FormatArray(NormalizeRanges(wild), 0); got != "0-4000000" {
		t.Errorf("NormalizeRanges of wild ranges is %s", got)
	}
	if CheckArray(&pb.ArraySpec{Ranges: wild}) == nil || CheckArray(nil) == nil {
		t.Error("CheckArray takes ranges that are none")
	}
}

func FuzzArray(f *testing.F) {
	for _, seed := range []string{"0-9:2,20%4", "[1-3]", "5,1,3", "0-4000000:4000000", "0-100:3,1-100:7", "1-5:4294967295,2"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Add("0-4000000:2,0-4000000:3,1")
	f.Fuzz(func(t *testing.T, in string) {
		array, err := ParseArray(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(array.GetRanges()) > MaxArrayRanges {
			t.Fatalf("%d ranges", len(array.GetRanges()))
		}
		text := FormatArray(array.GetRanges(), array.GetMaxRunning())
		back, err := ParseArray(text)
		if err != nil || FormatArray(back.GetRanges(), back.GetMaxRunning()) != text {
			t.Fatalf("%q is written %q, which reads %v, %v", in, text, back, err)
		}
		first, any := FirstTask(array.GetRanges())
		if !any || !ContainsTask(array.GetRanges(), first) {
			t.Fatalf("%q has no first task", in)
		}
		rest := RemoveTask(array.GetRanges(), first)
		if ContainsTask(rest, first) || CountTasks(rest)+1 != CountTasks(array.GetRanges()) {
			t.Fatalf("%q without %d is %s", in, first, FormatArray(rest, 0))
		}
	})
}

func TestParseGres(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"gpu", "gpu:1"},
		{"gpu:2", "gpu:2"},
		{"gpu:2,", "gpu:2"},
		{"gpu:a100", "gpu:a100:1"},
		{"gpu:A100:2", "gpu:a100:2"},
		{"gpu:4090:2", "gpu:4090:2"},
		{"gres:gpu:2", "gpu:2"},
		{"gres/gpu:2", "gpu:2"},
		{"gpu:0", ""},
		{"none", ""},
	} {
		got, err := ParseGres(test.in, pb.GpuScope_GPU_SCOPE_NODE)
		if err != nil || FormatGres(got) != test.want {
			t.Errorf("ParseGres(%q) = %v, %v; want %q", test.in, got, err, test.want)
		}
		if len(got) == 1 && got[0].GetScope() != pb.GpuScope_GPU_SCOPE_NODE {
			t.Errorf("ParseGres(%q) has scope %v", test.in, got[0].GetScope())
		}
	}
	for _, in := range []string{"", "2", "lustre:1", "gpu:", "gpu::2", "gpu:a100:", "gpu:a100:x", "gpu:-1", "gpu:1,gpu:2", "gpu:a b:1", "gpu:9999999999999999999999", "gpu:2000000", "gpu:a:1:2"} {
		if got, err := ParseGres(in, pb.GpuScope_GPU_SCOPE_NODE); err == nil {
			t.Errorf("ParseGres(%q) = %v, want an error", in, got)
		}
	}
}

func TestParseGPUs(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"2", "gpu:2"}, {"a100:2", "gpu:a100:2"}, {"a100", "gpu:a100:1"}, {"gpu:2", "gpu:2"}, {"gpu:h200:8", "gpu:h200:8"}, {"0", ""},
	} {
		got, err := ParseGPUs(test.in, pb.GpuScope_GPU_SCOPE_JOB)
		if err != nil || FormatGres(got) != test.want {
			t.Errorf("ParseGPUs(%q) = %v, %v; want %q", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{"", ":2", "a100:", "-1", "1.5", "a100:2:3", "a,b"} {
		if got, err := ParseGPUs(in, pb.GpuScope_GPU_SCOPE_JOB); err == nil {
			t.Errorf("ParseGPUs(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzGres(f *testing.F) {
	for _, seed := range []string{"gpu:2", "gpu:a100:2", "a100:2", "2", "gpu", "none", "gpu:1,gpu:2"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		for _, parse := range []func(string, pb.GpuScope) ([]*pb.GpuRequest, error){ParseGres, ParseGPUs} {
			gpus, err := parse(in, pb.GpuScope_GPU_SCOPE_NODE)
			if err != nil {
				checkRefusal(t, err)
			}
			if err != nil || len(gpus) == 0 {
				continue
			}
			text := FormatGres(gpus)
			back, err := ParseGres(text, pb.GpuScope_GPU_SCOPE_NODE)
			if err != nil || FormatGres(back) != text {
				t.Fatalf("%q is written %q, which reads %v, %v", in, text, back, err)
			}
		}
	})
}

func TestParseJobTargets(t *testing.T) {
	got, err := ParseJobTargets("12,13_4, 15_[1-5,9]")
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for i, want := range []string{"12", "13_4", "15_[1-5,9]"} {
		if got[i].String() != want {
			t.Errorf("target %d is %s, want %s", i, got[i], want)
		}
	}
	for _, in := range []string{"", "abc", "0", "-1", "12_", "12_x", "12_[1-5", "12_[]", "12_1-5", "12.0", "12_4%2", "12_[0-9%2]", "4294967296", "12_[5-1]", "12_4000001"} {
		_, err := ParseJobTargets(in)
		if err == nil || !strings.HasPrefix(err.Error(), "Invalid job id: "+in) {
			t.Errorf("ParseJobTargets(%q): %v", in, err)
		}
	}
	if _, err := ParseJobTargets(strings.Repeat("1,", MaxJobTargets+1)); err == nil {
		t.Error("too many targets are accepted")
	}
}

func FuzzJobTargets(f *testing.F) {
	for _, seed := range []string{"12", "13_4", "15_[1-5,9]", "1,2_3,4_[5]", "1_[0-4000000:3]", "_", "1_[1-2"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Add(strings.Repeat("1_[0-9],", 100) + "1_[0-4000000:2,1-4000000:2,5]")
	f.Fuzz(func(t *testing.T, in string) {
		targets, err := ParseJobTargets(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for _, target := range targets {
			back, err := ParseJobTargets(target.String())
			if err != nil || len(back) != 1 || back[0].String() != target.String() {
				t.Fatalf("%q holds %s, which reads %v, %v", in, target, back, err)
			}
		}
	})
}

func TestFormatJobID(t *testing.T) {
	three, one := uint32(3), uint32(1)
	for _, test := range []struct {
		id   *pb.JobId
		want string
	}{
		{&pb.JobId{Job: 12}, "12"},
		{&pb.JobId{Job: 12, ArrayTask: &three}, "12_3"},
		{&pb.JobId{Job: 12, HetComponent: &one}, "12+1"},
		{nil, "0"},
	} {
		if got := FormatJobID(test.id); got != test.want {
			t.Errorf("FormatJobID(%v) = %q, want %q", test.id, got, test.want)
		}
	}
}
