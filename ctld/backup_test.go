package ctld

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// TestBackups: they are whole, only as many as wanted are kept, others' files
// stay, and that none can be written is seen.
func TestBackups(t *testing.T) {
	config := configIn(shortDir(t))
	config.BackupDir, config.BackupEvery, config.BackupKeep = filepath.Join(filepath.Dir(config.Socket), "backups"), "24h", 3
	server := startServer(t, config)
	conn := connectTo(t, server.Addresses()[0], "")
	submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	b := server.backups
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if names, err := b.list(); err == nil && len(names) == 1 {
			break // the first one is written at once
		}
		if time.Now().After(deadline) {
			t.Fatal("no backup after a minute")
		}
	}
	strange := filepath.Join(config.BackupDir, "c1-old.snapshot")
	if err := os.WriteFile(strange, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(time.Hour)
	for i := range 5 {
		if err := b.write(begin.Add(time.Duration(i) * time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := b.list()
	if err != nil || len(names) != 3 || !strings.Contains(names[2], begin.Add(4*time.Minute).UTC().Format(backupStamp)) || !slices.IsSorted(names) {
		t.Fatalf("%v, %v", names, err)
	}
	if wait := b.until(begin.Add(5 * time.Minute)); wait < 23*time.Hour || wait > 24*time.Hour {
		t.Fatalf("the next one is due in %v", wait)
	}
	file, err := os.Open(filepath.Join(config.BackupDir, names[2]))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if found, err := snapshotfile.Read(file, nil); err != nil || found.Header().GetJobsWaiting() != 1 {
		t.Fatalf("%v, %v", found.Header(), err)
	}
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(strange); err != nil {
		t.Fatal(err)
	}
	broken := &backups{dir: filepath.Join(config.Socket, "below-a-socket"), name: "c1", keep: 1, cluster: server.cluster}
	why := broken.write(time.Now()).Error()
	b.failed.Store(&why)
	status, err := pb.NewControllerClient(conn).Status(soon(t), &pb.StatusRequest{})
	if err != nil || !slices.ContainsFunc(status.GetProblems(), func(p string) bool { return strings.Contains(p, "c1 cannot write backups") }) {
		t.Fatalf("%v, %v", status.GetProblems(), err)
	}
}
