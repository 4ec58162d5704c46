package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// roomFile names the file for an answer: the program asks, and runs no test.
const roomFile = "GLEANER_TEST_ROOM"

// TestRoom asks outside, and in a process of a group with a limit.
func TestRoom(t *testing.T) {
	requireController(t, "memory")
	const limit = 512 << 20
	g := create(t, Limits{MemoryBytes: limit})
	if room, err := Room(); err != nil || room == 0 {
		t.Errorf("here: %d: %v", room, err)
	}
	file := filepath.Join(t.TempDir(), "room")
	if code := run(t, g, fmt.Sprintf("%s=%s exec %s", roomFile, file, os.Args[0])); code != 0 {
		t.Fatalf("the question in the group exits with %d", code)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if room, err := strconv.ParseUint(string(text), 10, 64); err != nil || room > limit || room < limit/2 {
		t.Errorf("below a limit of %d there is room for %s: %v", limit, text, err)
	}
	directories, err := g.present()
	if err != nil {
		t.Fatal(err)
	}
	for _, directory := range directories {
		if _, err := roomOf(filepath.Join(directory, "gone")); err == nil {
			t.Errorf("there is room in %s/gone, which is no group", directory)
		}
	}
}

// answerRoom is the question in the group. It answers into a file.
func answerRoom(file string) (exitCode int) {
	room, err := Room()
	if err == nil {
		err = os.WriteFile(file, []byte(strconv.FormatUint(room, 10)), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
