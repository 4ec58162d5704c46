package noded

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/images/direct"
)

func TestCheckpointConfig(t *testing.T) {
	got, err := ParseConfig([]byte(`
[checkpoint]
criu = "/opt/criu/criu"
store = "/big/images"
limit = "500G"
timeout = "90s"
rate = "100M"
direct = "10.0.0.5:7900-7907"

[[checkpoint.shared]]
name = "scratch"
path = "/scratch/gleaner"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := CheckpointConfig{
		CRIU: "/opt/criu/criu", Store: "/big/images", Limit: 500 << 30, TimeoutS: 90, Rate: 100 << 20, CopyRate: defaultCopyRate,
		MayDial: true, Direct: &direct.Ports{Address: netip.MustParseAddr("10.0.0.5"), First: 7900, Last: 7907},
		Shared: []images.Shared{{Name: "scratch", Path: "/scratch/gleaner"}},
	}
	if diff := cmp.Diff(want, got.Checkpoint, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseConfig([]byte("[checkpoint]\ndirect = 'dial'\n")); err != nil || !got.Checkpoint.MayDial || got.Checkpoint.Direct != nil {
		t.Errorf("who only dials: %+v, %v", got.Checkpoint, err)
	}
}

func TestStoresInBuckets(t *testing.T) {
	got, err := ParseConfig([]byte(`
name = "n1"
[checkpoint]
store = "s3://images/cluster/"
endpoint = "http://10.0.0.9:9000"
region = "eu-1"
credentials = "/etc/gleaner/s3"

[[checkpoint.shared]]
name = "disk"
path = "/scratch/gleaner"
keys = "/etc/gleaner/images.keys"

[[checkpoint.shared]]
name = "amazon"
path = "s3://images"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := images.Config{
		Own: "s3://images/cluster/n1", OwnAt: images.Access{Endpoint: "http://10.0.0.9:9000", Region: "eu-1", Credentials: "/etc/gleaner/s3"},
		KeepFree: int64(got.MinFreeBytes),
		Shared: []images.Shared{
			{Name: "disk", Path: "/scratch/gleaner", Access: images.Access{Keys: "/etc/gleaner/images.keys"}}, {Name: "amazon", Path: "s3://images"},
		},
	}
	if diff := cmp.Diff(want, got.stores()); diff != "" {
		t.Error(diff)
	}
}

func TestCheckpointConfigRefusals(t *testing.T) {
	shared := func(name, path string) string {
		return "[[checkpoint.shared]]\nname='" + name + "'\npath='" + path + "'\n"
	}
	for text, want := range map[string]string{
		"[checkpoint]\nengine='x'":                       `:2:1: unknown key "checkpoint.engine"`,
		"[checkpoint]\ncriu='criu'":                      "checkpoint.criu",
		"[checkpoint]\nstore='images/'":                  "checkpoint.store",
		"[checkpoint]\nstore='s3://X'":                   "checkpoint.store: \"s3://X\" is no address of a bucket",
		"[checkpoint]\nstore='s3://abc'\nendpoint='abc'": "\"abc\" is no address of a server",
		"[checkpoint]\nendpoint='https://abc'":           "checkpoint.endpoint is for a bucket",
		"[checkpoint]\nkeys='keys'":                      "checkpoint.keys",
		shared("a", "s3://abc") + "credentials='c'":      "checkpoint.shared 1: credentials",
		"[checkpoint]\nlimit='much'":                     "checkpoint.limit",
		"[checkpoint]\nlimit='0'":                        "above zero",
		"[checkpoint]\nrate='-1'":                        "checkpoint.rate",
		"[checkpoint]\ndirect='0.0.0.0:7900'":            "such as 10.0.0.5:7900-7907, or \"dial\"",
		"[checkpoint]\ntimeout='5'":                      "such as 30m",
		"[checkpoint]\ntimeout='1ms'":                    "between 1s",
		"[checkpoint]\ntimeout='9000h'":                  "between 1s",
		shared("", "/s"):                                 "a name",
		shared("a b", "/s"):                              "a name",
		shared("a", "s"):                                 "checkpoint.shared 1: path",
		shared("a", "/s") + shared("a", "/t"):            "another store",
		shared("a", "/s") + shared("b", "/s"):            "another store",
		shared("a", DefaultStateDir+"/images"):           "another store",
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
