// Package bundletest has an order, the settings that go with it, and fuzz seeds made
// of them. It is for tests of what reads an allocation's directory.
package bundletest

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Order is that of allocation 12.1, with something in most of its fields.
func Order() *pb.StartAlloc {
	task := uint32(3)
	return &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: 12, Epoch: 1}, Id: &pb.JobId{Job: 12, ArrayTask: &task}, ArrayJobId: 10, RestartCount: 1,
		Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 7, Step: 2}}},
		Spec: &pb.JobSpec{Name: "train", WorkDirectory: "/home/ann", Environment: []string{"A=1", "SLURM_SUBMIT_DIR=/x"}, StandardOutput: "%x-%A_%a.out",
			Tasks: 4, TasksPerNode: 2, CpusPerTask: 2, MemoryPerCpuBytes: 1 << 20, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 2, Model: "m"}}},
		Owner:      &pb.Identity{Uid: 1000, Gid: 100, User: "ann", Home: "/home/ann"},
		Allocation: []*pb.NodeAllocation{{Node: "n0", CpuIds: []uint32{1}, Tasks: 2}, {Node: "n1", CpuIds: []uint32{0, 1}, Devices: []*pb.AllocatedDevice{{DeviceId: "g", Index: 3}}}},
		Node:       "n1", BatchHost: "n1", KillWaitS: math.MaxUint32, LeaseAction: lease.Fence,
	}
}

// Seed adds the seeds of a fuzz test of an allocation's name, order and settings: good
// ones, and ones that are cut off, spoiled or hostile.
func Seed(f *testing.F) {
	f.Helper()
	settings, err := json.Marshal(&bundle.Settings{StateDir: "/s", Node: "n1", CgroupParent: "/gleaner/n1", Controllers: []string{"unix:///x"},
		RealCPUs: []int{0, 1}, DeviceFiles: []bundle.DeviceFile{{Path: "/dev/null", ContainerPath: "/dev/g0", Type: 'c', Major: 1, Minor: 3, Access: "rw"}}})
	if err != nil {
		f.Fatal(err)
	}
	order := prototest.Marshal(Order())
	f.Add("12.1", order, settings)
	f.Add("0.0", []byte{}, []byte("{}"))
	f.Add("12.1", order[:30], []byte(`{"real_cpus":[-1],"device_files":[{"type":-5,"major":-1}],"max_processes":-9}`))
	for _, data := range prototest.Spoiled(Order()) {
		f.Add("12.1", data, settings)
	}
	for _, data := range prototest.Hostile[pb.StartAlloc]() {
		f.Add("1.1", data, settings)
	}
}

// Write writes an allocation's directory as a fuzz test wants it. It answers false if
// the name or the order is refused, and fails the test if the order is taken for one of
// another allocation.
func Write(t testing.TB, parent, name string, order, settings []byte) (d bundle.Dir, ok bool) {
	t.Helper()
	if bundle.ParseID(name) == nil {
		return "", false
	}
	d = bundle.Dir(filepath.Join(parent, name))
	err := os.MkdirAll(string(d), 0o700)
	if err == nil {
		err = os.WriteFile(d.Path(bundle.OrderFile), bundle.Seal(bytes.Clone(order)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(d.Path(bundle.SettingsFile), settings, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	read, err := d.Order()
	if err != nil {
		return "", false
	}
	if read.GetAlloc().GetJob() == 0 || bundle.ID(read.Alloc) != name {
		t.Fatalf("%s is taken for allocation %v", name, read.GetAlloc())
	}
	return d, true
}
