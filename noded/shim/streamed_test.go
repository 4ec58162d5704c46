package shim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// keeper counts as long as what it has in memory, some megabytes of noise, stays the same.
func (b *bed) keeper() *pb.StartAlloc {
	order := b.order(`x=$(head -c 5000000 /dev/urandom | base64 -w0); sum=$(printf %s "$x" | cksum); i=0
while :; do [ "$(printf %s "$x" | cksum)" = "$sum" ] || exit 3; i=$((i+1)); echo $i; sleep 0.01; done`)
	return order
}

// TestStreamedImage: what a job has in memory is read from the store while CRIU restores
// it, and is the same; when the job runs, nothing of that is left, and files that the node has were not unpacked. If a byte of it is not
// as it was saved, nothing has run.
func TestStreamedImage(t *testing.T) {
	b := newSavingBed(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs FUSE: an image is streamed by it")
	}
	order := b.keeper()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	second := first.move(1)
	b.countsOn()
	log, err := os.ReadFile(second.dir.Path(bundle.LogFile))
	must(t, err)
	if !strings.Contains(string(log), "read while it is restored") {
		t.Errorf("it was not streamed:\n%s", log)
	}
	if left, err := os.ReadDir(second.dir.Path(imagedir.Name)); err != nil || len(left) > 0 {
		t.Errorf("programs and libraries that are here were unpacked: %v, %v", left, err)
	}
	if mounts := b.mountsOf(second); strings.Contains(mounts, "fuse.gleaner") || strings.Contains(mounts, imagedir.Name) {
		t.Errorf("something is still mounted:\n%s", mounts)
	}
	saved := second.saveAndEnd(2)
	at := b.counts()

	packs, err := filepath.Glob(filepath.Join(b.settings.Checkpoint.Stores.Own, "images", "*", "*.pack"))
	must(t, err)
	for _, pack := range packs {
		file, err := os.OpenFile(pack, os.O_RDWR, 0)
		must(t, err)
		info, err := file.Stat()
		must(t, err)
		_, err = file.WriteAt([]byte("damage"), info.Size()/2)
		must(t, err)
		must(t, file.Close())
	}
	third := b.launch(restored(second.order, saved.Image))
	result := third.wait()
	if result.Cause != pb.EndCause_END_CAUSE_RESTORE_FAILED || !strings.Contains(result.Detail, "is damaged") {
		t.Errorf("ended %v", result)
	}
	if b.counts() != at {
		t.Error("it ran")
	}
	third.checkNothingLeft()
}

// TestEndedWhileStreamed: a restore that is ended leaves nothing.
func TestEndedWhileStreamed(t *testing.T) {
	b := newSavingBed(t)
	order := b.keeper()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	saved := first.saveAndEnd(1)
	second := b.launch(restored(order, saved.Image))
	_, err := second.client().End(context.Background(), endOrder(second))
	must(t, err)
	if result := second.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
	second.checkNothingLeft()
}
