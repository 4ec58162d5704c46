package api

import (
	"fmt"
	"strings"
	"testing"
)

// The named jobs go first in their group, in that order, and the others keep theirs; the
// priorities are those that were there.
func TestPlanTop(t *testing.T) {
	one, other := among{uid: 1, partition: "main"}, among{uid: 1, partition: "long"}
	queue := []queued{{7, 900, 0, one}, {5, 800, 10, one}, {6, 750, 0, other}, {3, 700, 0, one}, {9, 600, -3, one}, {4, 500, 0, other}}
	flat := []queued{{1, 100, 0, one}, {2, 100, 0, one}, {3, 100, 0, one}, {4, 100, 0, one}}
	low := []queued{{1, 2, 0, one}, {2, 1, 4, one}}
	for _, c := range []struct {
		queue []queued
		named []uint32
		want  string
	}{
		{queue, []uint32{7}, ""},
		{queue, []uint32{7, 5}, ""},
		{queue, []uint32{3}, "3:0>-200 5:10>110 7:0>100"},
		{queue, []uint32{9, 3}, "3:0>-100 5:10>210 7:0>200 9:-3>-303"},
		{queue, []uint32{4}, "4:0>-250 6:0>250"},
		{queue, []uint32{4, 9}, "3:0>100 4:0>-250 5:10>110 6:0>250 7:0>100 9:-3>-303"},
		{flat, []uint32{3}, "1:0>1 2:0>1 4:0>1"}, // of equal ones the lower number goes first
		{flat, []uint32{4, 2}, "1:0>2 2:0>1 3:0>2"},
		{low, []uint32{2}, "1:0>1 2:4>3"},
	} {
		var got []string
		now := map[uint32]int64{}
		for _, change := range planTop(c.queue, c.named) {
			got = append(got, fmt.Sprintf("%d:%d>%d", change.Job, change.From, change.To))
			now[change.Job] = int64(change.From) - int64(change.To)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("top %v: %s, want %s", c.named, strings.Join(got, " "), c.want)
		}
		first := map[among]int64{}
		sum := int64(0)
		for _, job := range c.queue {
			first[job.among] = max(first[job.among], int64(job.priority))
			sum += now[job.id]
		}
		for _, job := range c.queue {
			if int64(job.priority)+now[job.id] > first[job.among] {
				t.Errorf("top %v: job %d passes jobs of others", c.named, job.id)
			}
		}
		if sum > 0 {
			t.Errorf("top %v: together they have %d more than before", c.named, sum)
		}
	}
}
