package spec

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestParseEndSignal(t *testing.T) {
	for in, want := range map[string]string{
		"USR1": "USR1@60", "10": "USR1@60", "sigusr2@120": "USR2@120", "B:USR1@0": "B:USR1@0", "b:TERM@65535": "B:TERM@65535",
		"R:USR1@5": "R:USR1@5", "rb:12": "RB:USR2@60", "BR:INT": "RB:INT@60", "BUS": "BUS@60", "34@1": "34@1",
	} {
		got, err := ParseEndSignal(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
		if again, err := ParseEndSignal(got.String()); err != nil || again != got {
			t.Errorf("%q: %v, %v is not %v", in, again, err, got)
		}
	}
	for in, want := range map[string]string{
		"": "no name", "@60": "no name", "B:": "no name", ":USR1": "there is nothing before", "X:USR1": "only B", "USR1@": "seconds", "USR1@65536": "65535", "USR1@-1": "seconds",
		"USR1@1:00": "only B", "NOWHERE": "NOWHERE", "0": "1 to 64", "65": "1 to 64", "USR1@60@60": "seconds",
	} {
		if got, err := ParseEndSignal(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzEndSignal(f *testing.F) {
	for _, seed := range []string{"USR1", "B:USR1@60", "rb:10@0", "R:", "@", "X:SIGUSR1@99999999999999999999", ":::", "B:B:USR1"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseEndSignal(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if got.Signal < 1 || got.Signal > maxSignal || got.BeforeS > maxEndSignalS {
			t.Fatalf("%q: %+v", in, got)
		}
		if again, err := ParseEndSignal(got.String()); err != nil || again != got {
			t.Fatalf("%q: %v, %v is not %v", in, again, err, got)
		}
	})
}

func TestParseCheckpointInterval(t *testing.T) {
	for in, want := range map[string]uint32{"30": 1800, "1:00:00": 3600, "unlimited": 0, "0": 0} {
		if got, auto, err := ParseCheckpointInterval(in); err != nil || auto || got != want {
			t.Errorf("%q: %d %t %v", in, got, auto, err)
		}
	}
	if got, auto, err := ParseCheckpointInterval("Auto"); err != nil || !auto || got != 0 {
		t.Errorf("auto: %d %t %v", got, auto, err)
	}
	for _, in := range []string{"", "often", "1:2:3:4", "-5"} {
		if _, _, err := ParseCheckpointInterval(in); err == nil || !strings.Contains(err.Error(), "auto") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestCheckCheckpoint(t *testing.T) {
	for _, c := range []struct {
		policy *pb.CheckpointPolicy
		want   string
	}{
		{nil, ""},
		{&pb.CheckpointPolicy{}, ""},
		{&pb.CheckpointPolicy{Mode: "auto", IntervalS: 60, Directory: "x/%j"}, ""},
		{&pb.CheckpointPolicy{Mode: "system", IntervalAuto: true}, ""},
		{&pb.CheckpointPolicy{Mode: "app", Directory: "/scratch"}, ""},
		{&pb.CheckpointPolicy{Mode: "none"}, ""},
		{&pb.CheckpointPolicy{Mode: "App"}, "--checkpoint=App is not known"},
		{&pb.CheckpointPolicy{Mode: "none", IntervalS: 1}, "exclude each other"},
		{&pb.CheckpointPolicy{Mode: "app", IntervalAuto: true}, "chooses when"},
		{&pb.CheckpointPolicy{IntervalS: 1, IntervalAuto: true}, "both"},
		{&pb.CheckpointPolicy{IntervalS: Unlimited}, "without end"},
		{&pb.CheckpointPolicy{Mode: "system", Directory: "/x"}, "--checkpoint=app"},
		{&pb.CheckpointPolicy{Directory: "a\x00b"}, "--checkpoint-dir"},
		{&pb.CheckpointPolicy{Directory: strings.Repeat("a", MaxPathBytes+1)}, "--checkpoint-dir"},
	} {
		err := CheckCheckpoint(c.policy)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.policy, err, c.want)
		}
	}
}

func TestCheckpointDirectory(t *testing.T) {
	names := FileNames{JobID: 12, ArrayJobID: 10, ArrayTask: 3, IsArray: true, User: "ann"}
	for _, c := range []struct {
		policy *pb.CheckpointPolicy
		want   string
	}{
		{nil, ""},
		{&pb.CheckpointPolicy{Mode: "system"}, ""},
		{&pb.CheckpointPolicy{Mode: "app"}, "/home/ann/run/.gleaner/12"},
		{&pb.CheckpointPolicy{Mode: "app", Directory: "saved/%A_%a"}, "/home/ann/run/saved/10_3"},
		{&pb.CheckpointPolicy{Directory: "/scratch/%u/%j/"}, "/scratch/ann/12"},
		{&pb.CheckpointPolicy{Mode: "app", Directory: "../x"}, "/home/ann/x"},
	} {
		got, err := CheckpointDirectory(&pb.JobSpec{WorkDirectory: "/home/ann/run/", Checkpoint: c.policy}, names)
		if err != nil || got != c.want {
			t.Errorf("%v: %q, %v; want %q", c.policy, got, err, c.want)
		}
	}
}
