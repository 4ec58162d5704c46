package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadMoves(t *testing.T) {
	moves, err := ReadMoves(strings.NewReader("# nodes\n480000, add, node1\n 0,add,node0\r\n600500,remove,node1\n"))
	want := []Move{{0, "node0", true}, {480, "node1", true}, {600, "node1", false}}
	if err != nil || !slices.Equal(moves, want) {
		t.Errorf("%+v, %v", moves, err)
	}
	for text, want := range map[string]string{
		"":                       "no node moves in it",
		"1,add\n":                "line 1: it has 2 fields and not 3",
		"0,add,n\nsoon,add,n\n":  `line 2: field 1: "soon" is no number`,
		"-5,add,n\n":             "line 1: -5 is no time",
		"5,leave,n\n":            `line 1: "leave" is neither add nor remove`,
		"9000000000000000,add,n": "is no time",
	} {
		if _, err := ReadMoves(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestManyBrokenLines: the first broken lines are told of, and no more of them.
func TestManyBrokenLines(t *testing.T) {
	text := &strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(text, "broken %d\n", i)
	}
	_, err := Read(strings.NewReader(text.String()))
	var lines LineErrors
	if !errors.As(err, &lines) || len(lines) != maxWrong || lines[maxWrong-1].Line != maxWrong || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "reading stopped here") {
		t.Errorf("%v", err)
	}
	_, err = Read(strings.NewReader("1 2 3\n" + strings.Replace(swf, "%s", "10", 1) + "\nx\n"))
	if err == nil || !strings.Contains(err.Error(), "line 1:") || !strings.Contains(err.Error(), "line 3:") || strings.Contains(err.Error(), "stopped") {
		t.Errorf("two broken lines: %v", err)
	}
}

// TestRoundLimits: a limit becomes the next that people ask for.
func TestRoundLimits(t *testing.T) {
	jobs := []Job{{EstimateS: 1}, {EstimateS: 600}, {EstimateS: 601}, {EstimateS: 90 * 24 * 3600}}
	RoundLimits(jobs)
	for i, want := range []int64{600, 600, 3600, 90 * 24 * 3600} {
		if jobs[i].EstimateS != want {
			t.Errorf("limit %d is %d, want %d", i, jobs[i].EstimateS, want)
		}
	}
}

// FuzzReadMoves: no bytes make it panic, and the moves come in the order of time.
func FuzzReadMoves(f *testing.F) {
	f.Add([]byte("480000,add,node1\n600000,remove,node1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		moves, err := ReadMoves(strings.NewReader(string(text)))
		if err == nil && (len(moves) == 0 || moves[0].AtS < 0 || !slices.IsSortedFunc(moves, func(a, b Move) int { return int(a.AtS - b.AtS) })) {
			t.Fatalf("%+v", moves)
		}
	})
}
