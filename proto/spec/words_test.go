package spec

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestParseTime(t *testing.T) {
	for _, test := range []struct {
		in   string
		want uint32
	}{
		{"1", 60},
		{"90", 5400},
		{"0:01", 60},
		{"1:30", 120},
		{"90:00", 5400},
		{"1:00:00", 3600},
		{"1:00:01", 3660},
		{"1-0", 86400},
		{"1-2", 93600},
		{"1-2:3", 93780},
		{"1-02:03:04", 93840},
		{"0", Unlimited},
		{"0:00", Unlimited},
		{"unlimited", Unlimited},
		{"INFINITE", Unlimited},
		{"-1", Unlimited},
	} {
		if got, err := ParseTime(test.in); err != nil || got != test.want {
			t.Errorf("ParseTime(%q) = %d, %v; want %d", test.in, got, err, test.want)
		}
		if strings.HasPrefix(test.in, "0") && test.want == Unlimited { // zero
			test.want = 0
		}
		if got, err := ParseWall(test.in); err != nil || got != test.want {
			t.Errorf("ParseWall(%q) = %d, %v; want %d", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{"", "abc", "1:2:3:4", "-5", "1-", "-1:00", "1.5", "+3", "1-2-3", " 1", "4294967296", "99999999", "1:", ":1"} {
		if got, err := ParseTime(in); err == nil {
			t.Errorf("ParseTime(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatTime(t *testing.T) {
	for seconds, want := range map[uint32]string{
		0: "0:00", 60: "1:00", 61: "1:01", 3600: "1:00:00", 93780: "1-02:03:00", Unlimited: "UNLIMITED",
	} {
		if got := FormatTime(seconds); got != want {
			t.Errorf("FormatTime(%d) = %q, want %q", seconds, got, want)
		}
	}
}

// checkRefusal fails when an error is more than a few lines, whatever it is
// about: it is shown on a terminal and written into logs.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); len(text) == 0 || len(text) > 1024 {
		t.Fatalf("a refusal of %d bytes: %.100q", len(text), text)
	}
}

// long is what nobody types.
var long = strings.Repeat("9a[,-", 1000)

func FuzzTime(f *testing.F) {
	for _, seed := range []string{"1", "1:30", "1:00:00", "1-2:3:4", "UNLIMITED", "-1", "99999999999999999999", "49710-0", "0-0:0:0"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		seconds, err := ParseTime(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if back, err := ParseTime(FormatTime(seconds)); err != nil || back != seconds {
			t.Fatalf("%q is %d, written %q, which reads %d, %v", in, seconds, FormatTime(seconds), back, err)
		}
	})
}

func TestParseSize(t *testing.T) {
	for _, test := range []struct {
		in   string
		want uint64
	}{
		{"300", 300 << 20},
		{"0", 0},
		{"512M", 512 << 20},
		{"4g", 4 << 30},
		{"4GB", 4 << 30},
		{"1T", 1 << 40},
		{"10k", 10 << 10},
		{"100B", 100},
		{"1.5G", 3 << 29},
		{"1.50G", 3 << 29},
	} {
		if got, err := ParseSize(test.in, 1<<20); err != nil || got != test.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{"", "G", "B", "4X", "-1", "1e3", "1.", ".5", "0.3K", "1.5.5G", "99999999999999999999", "16384P", "18446744073709551615K", "1.5B", "4 G"} {
		if got, err := ParseSize(in, 1<<20); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0", 256 << 20: "256M", 4 << 30: "4G", 3 << 29: "1.50G", 300 << 20: "300M", 1: "1", 1 << 63: "8192P", 1000: "1000",
	} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"300", "4G", "1.5g", "1.50GB", "0.000000001T", "18446744073709551615", "16383.99P", "B"} {
		f.Add(seed, uint64(1))
		f.Add(seed, uint64(1<<20))
	}
	f.Add(long, uint64(1))
	f.Fuzz(func(t *testing.T, in string, unit uint64) {
		bytes, err := ParseSize(in, unit)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if back, err := ParseSize(FormatSize(bytes), 1); err != nil || back != bytes {
			t.Fatalf("%q is %d, written %q, which reads %d, %v", in, bytes, FormatSize(bytes), back, err)
		}
	})
}

func TestStates(t *testing.T) {
	for number := range pb.JobState_name {
		state := pb.JobState(number)
		if state == pb.JobState_JOB_STATE_UNSPECIFIED {
			continue
		}
		for _, word := range []string{StateName(state), StateCode(state), strings.ToLower(StateName(state))} {
			if got, err := ParseState(word); err != nil || got != (StateChoice{State: state}) {
				t.Errorf("ParseState(%q) = %+v, %v; want %v", word, got, err, state)
			}
		}
	}
	for word, want := range map[string]StateChoice{
		"cg": {Completing: true}, "CONFIGURING": {Configuring: true}, "SE": {SpecialExit: true}, "special_exit": {SpecialExit: true},
		"ST": {Never: true}, "revoked": {Never: true}, "RS": {Never: true},
	} {
		if got, err := ParseState(word); err != nil || got != want {
			t.Errorf("ParseState(%q) = %+v, %v; want %+v", word, got, err, want)
		}
	}
	// squeue(1), JOB STATE CODES.
	for _, code := range strings.Fields("BF CA CD CF CG DL F NF OOM PD PR R RD RF RH RQ RS RV SI SE SO ST S TO") {
		if _, err := ParseState(code); err != nil {
			t.Error(err)
		}
	}
	_, err := ParseState("xyz")
	want := "Invalid job state specified: xyz\nValid job states include: PENDING,RUNNING,"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("ParseState(xyz): %v", err)
	}
	if StateName(99) != "UNKNOWN" || StateCode(0) != "?" {
		t.Error("a state that is none has a name")
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]uint32{"USR1": 10, "SIGUSR1": 10, "sigterm": 15, "kill": 9, "10": 10, "64": 64} {
		if got, err := ParseSignal(in); err != nil || got != want {
			t.Errorf("ParseSignal(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "SIG", "0", "65", "-9", "NOPE", "99999999999", "SIGSIGTERM"} {
		if got, err := ParseSignal(in); err == nil {
			t.Errorf("ParseSignal(%q) = %d, want an error", in, got)
		}
	}
}

func FuzzSignal(f *testing.F) {
	for _, seed := range []string{"USR1", "sigterm", "9", "40", "SIG"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		signal, err := ParseSignal(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if back, err := ParseSignal(SignalName(signal)); err != nil || back != signal {
			t.Fatalf("%q is %d, named %q, which reads %d, %v", in, signal, SignalName(signal), back, err)
		}
	})
}

func FuzzState(f *testing.F) {
	for _, seed := range []string{"PD", "pending", "CG", "CF", "x"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		choice, err := ParseState(in)
		if err != nil {
			checkRefusal(t, err)
		}
		if err != nil || choice.State == pb.JobState_JOB_STATE_UNSPECIFIED {
			return
		}
		if back, err := ParseState(StateName(choice.State)); err != nil || back != choice {
			t.Fatalf("%q is %+v, which reads %+v, %v", in, choice, back, err)
		}
	})
}

func TestExpandFileName(t *testing.T) {
	batch := FileNames{JobID: 128, JobName: "train", User: "ada", Node: "n7.lab.example"}
	task := batch
	task.IsArray, task.ArrayJobID, task.ArrayTask = true, 100, 3
	step := batch
	step.InStep, step.Step, step.Task, step.NodeIndex = true, 2, 5, 1
	for _, test := range []struct {
		pattern string
		values  FileNames
		want    string
	}{
		{"slurm-%j.out", batch, "slurm-128.out"},
		{"slurm-%A_%a.out", task, "slurm-100_3.out"},
		{"%A_%a", batch, "128_4294967294"},
		{"%J %j %s %t %n", batch, "128 128 batch 0 0"},
		{"%J %j %s %t %n", step, "128.2 128 2 5 1"},
		{"%x-%u@%N", batch, "train-ada@n7"},
		{"%5j", batch, "00128"},
		{"%05j", batch, "00128"},
		{"%2j", batch, "128"},
		{"%99j", batch, "0000000128"},
		{"%99999999999999999999j", batch, "0000000128"},
		{"%5x", batch, "train"},
		{"o/%x", FileNames{JobName: "../a/b"}, "o/.._a_b"},
		{"%4s-%3t", step, "0002-005"},
		{"%%j", batch, "%j"},
		{"100%", batch, "100%"},
		{"%b %5b %5%", batch, "%b %5b %5%"},
		{`a\%j`, batch, "a%j"},
		{`a\\%j`, batch, `a\%j`},
		{`%j\`, batch, "%j"},
		{"", batch, ""},
	} {
		if got, err := ExpandFileName(test.pattern, test.values); err != nil || got != test.want {
			t.Errorf("ExpandFileName(%q) = %q, %v; want %q", test.pattern, got, err, test.want)
		}
	}
	batch.JobName = strings.Repeat("x", MaxNameBytes)
	for _, pattern := range []string{"a\x00b", strings.Repeat("x", MaxPathBytes), strings.Repeat("%x", 1000)} {
		if _, err := ExpandFileName(pattern, batch); err == nil {
			t.Errorf("ExpandFileName(%.20q) is accepted", pattern)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, seed := range []string{"slurm-%j.out", "%5A_%a", `\%j`, "%", "%%", "%99999999999j", "%x%N"} {
		f.Add(seed, "name", "n1.x", uint32(4000000000), true)
	}
	f.Add(long, "name", "n1", uint32(1), false)
	f.Fuzz(func(t *testing.T, pattern, name, node string, number uint32, step bool) {
		v := FileNames{JobID: number, JobName: name, Node: node, Task: number, InStep: step}
		got, err := ExpandFileName(pattern, v)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(got) > MaxPathBytes {
			t.Fatalf("%d bytes", len(got))
		}
		if !strings.ContainsAny(pattern, `%\`) && got != pattern {
			t.Fatalf("%q became %q", pattern, got)
		}
	})
}
