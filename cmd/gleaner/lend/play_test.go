package lend

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

// stage runs command lines of this command.
var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }

type asked struct {
	pb.UnimplementedControllerServer
	requests []*pb.SetLendingRequest
}

func (a *asked) SetLending(_ context.Context, request *pb.SetLendingRequest) (*pb.SetLendingResponse, error) {
	a.requests = append(a.requests, request)
	return &pb.SetLendingResponse{}, nil
}

// TestLendAsks: what is asked for is what was typed.
func TestLendAsks(t *testing.T) {
	controller := &asked{}
	target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
	const none = 1<<64 - 1
	for line, want := range map[string]*pb.SetLendingRequest{
		"glend":                                                 {DryRun: true, Lending: &pb.Lending{}},
		"glend --mine --reset":                                  {FromDefault: true, Lending: &pb.Lending{}},
		"glend n2,n1 --notice=2m -n":                            {Names: "n[1-2]", DryRun: true, Settings: []string{"notice_ms"}, Lending: &pb.Lending{NoticeMs: 120_000}},
		"glend n1 --gpus 50% --accounts=B,a":                    {Names: "n1", Settings: []string{"gpu_percent", "accounts"}, Lending: &pb.Lending{GpuPercent: 50, Accounts: []string{"b", "a"}}},
		"glend n1 --gpus=0 --accounts=all":                      {Names: "n1", Settings: []string{"gpu_percent", "accounts"}, Lending: &pb.Lending{}},
		"glend n1 --hours=ALWAYS --time-zone=X":                 {Names: "n1", Settings: []string{"hours", "time_zone"}, Lending: &pb.Lending{Hours: "always", TimeZone: "X"}},
		"glend n1 --guest-power=250w --guest-io=50M":            {Names: "n1", Settings: []string{"guest_io_bytes", "guest_power_watts"}, Lending: &pb.Lending{GuestPowerWatts: 250, GuestIoBytes: 50 << 20}},
		"glend n1 --guest-power=unlimited --guest-io=unlimited": {Names: "n1", Settings: []string{"guest_io_bytes", "guest_power_watts"}, Lending: &pb.Lending{}},
		"glend n1 --kill=NO":                                    {Names: "n1", Settings: []string{"unbounded"}, Lending: &pb.Lending{}},
		"glend n1 --nested=yes":                                 {Names: "n1", Settings: []string{"nested_containers"}, Lending: &pb.Lending{NestedContainers: true}},
		"glend n1 --kill=yes":                                   {Names: "n1", Settings: []string{"unbounded"}, Lending: &pb.Lending{Unbounded: true}},
		"glend n1 --hours=18:00-8:00":                           {Names: "n1", Settings: []string{"hours", "time_zone"}, Lending: &pb.Lending{Hours: "18:00-8:00", TimeZone: "Asia/Tokyo"}},
		"glend n1 --guest-memory=4G --max-time=4h --parked-memory=0 --guest-tmp=unlimited": {Names: "n1",
			Settings: []string{"guest_memory_bytes", "guest_tmp_bytes", "parked_memory_bytes", "max_unsaved_s"}, Lending: &pb.Lending{GuestMemoryBytes: 4 << 30, GuestTmpBytes: none, MaxUnsavedS: 14400}},
	} {
		controller.requests = nil
		got := stage.Command(t, target, "", []string{"TZ=Asia/Tokyo"}, strings.Fields(line)...)
		if len(controller.requests) != 1 || got.Status != 0 {
			t.Errorf("%s: %+v", line, got)
			continue
		}
		one := controller.requests[0]
		want.RequestId = one.RequestId
		if one.String() != want.String() || one.RequestId == "" {
			t.Errorf("%s asks for %v, want %v", line, one, want)
		}
	}
}

func TestLocalZone(t *testing.T) {
	etc := t.TempDir()
	zones := filepath.Join(t.TempDir(), "zoneinfo", "Europe")
	if err := os.MkdirAll(zones, 0o755); err != nil {
		t.Fatal(err)
	}
	want := func(environment, zone string) {
		t.Helper()
		if got := localZone(environment, etc); got != zone {
			t.Errorf("%q: %s, want %s", environment, got, zone)
		}
	}
	want("", "UTC")
	if err := os.WriteFile(filepath.Join(etc, "timezone"), []byte("Asia/Tokyo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want("", "Asia/Tokyo")
	if err := os.WriteFile(filepath.Join(zones, "Berlin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(zones, "Berlin"), filepath.Join(etc, "localtime")); err != nil {
		t.Fatal(err)
	}
	want("", "Europe/Berlin")
	want(":America/Lima", "America/Lima")
	want("/usr/share/zoneinfo/UTC", "Europe/Berlin")
}
