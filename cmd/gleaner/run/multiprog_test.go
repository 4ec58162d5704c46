package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
)

func TestMultiProg(t *testing.T) {
	lines, err := parsePrograms("# tasks\n4-6,9 hostname\n1,7 echo task:%t \\\n  'a b' \"%o\"\n\n0,2-3 echo offset:%o 100%%\n* sh -c 'echo $0'\n")
	if err != nil {
		t.Fatal(err)
	}
	for rank, want := range map[uint32]string{
		0: "[echo offset:0 100%]", 3: "[echo offset:2 100%]", 5: "[hostname]", 9: "[hostname]", 7: "[echo task:7 a b 1]", 8: "[sh -c echo $0]",
	} {
		if argv, err := lines.ofTask(rank); err != nil || fmt.Sprint([]string(argv)) != want {
			t.Errorf("task %d: %v %v, want %s", rank, argv, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "it lists no programs", "0": "line 1: ", "x echo": "line 1: ", "\n3-1 echo": "line 2: ", "0 'echo": "ends within quotes", "0 echo \\": "ends within a line", "0- echo": "no list of tasks",
	} {
		if _, err := parsePrograms(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	some, _ := parsePrograms("0 true")
	if _, err := some.ofTask(1); err == nil {
		t.Error("a task without a program runs")
	}
}

// FuzzPrograms: whatever the file says, each task has a program or the user a sentence.
func FuzzPrograms(f *testing.F) {
	for _, seed := range []string{"4-6 hostname\n1,7 echo task:%t\n", "* sh -c 'a b'", "0 a \\\nb", "9999999999 x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := parsePrograms(text)
		if err != nil {
			return
		}
		for rank := range uint32(4) {
			if argv, err := lines.ofTask(rank); err == nil && (len(argv) == 0) {
				t.Fatalf("%q gives task %d nothing", text, rank)
			}
		}
	})
}

// FuzzBinds: --cpu-bind, --gpu-bind: what is read has a set for each task.
func FuzzBinds(f *testing.F) {
	for _, seed := range []string{"verbose,map_cpu:0,1*2", "mask_cpu:0x3,C", "cores", "map_gpu:1,0x2", "single:2", "q,none"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values := map[string][]string{optCPUBind: {text}, jobspec.OptGPUBind: {text}}
		if bind, err := readCPUBind(values, 1); err == nil {
			for _, set := range bind.Sets {
				if len(set) == 0 {
					t.Fatalf("%q binds to nothing", text)
				}
			}
		}
		if bind, err := jobspec.ReadGPUBind(text); err == nil {
			_, _ = bind.OfTask(3, 4)
		}
	})
}
