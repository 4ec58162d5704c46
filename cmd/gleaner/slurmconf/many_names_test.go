package slurmconf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A few short lines that stand for millions of names are refused, soon.
func TestManyNames(t *testing.T) {
	defer func(bound int) { maxNamed = bound }(maxNamed)
	maxNamed = 1 << 15
	var partitions strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&partitions, "PartitionName=p%d Nodes=n[1-20000]\n", i)
	}
	for name, conf := range map[string][3]string{
		"partitions": {partitions.String()},
		"a set":      {"NodeSet=s Nodes=n[1-20000]\nNodeSet=r Nodes=n[1-20000]\nPartitionName=p Nodes=s,r"},
		"gres.conf":  {"NodeName=n[1-20000]\n", strings.Repeat("Name=gpu File=/dev/a[0-7]\n", 1000)},
		"topology":   {"NodeName=n[1-20]\n", "", strings.Repeat("SwitchName=s Nodes=n[1-20000]\n", 100_000)},
	} {
		files := map[string]string{"slurm.conf": conf[0], "gres.conf": conf[1], "topology.conf": conf[2]}
		var lines [3][]Line
		for i, file := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
			var err error
			if lines[i], err = Read(file, openIn(files)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Convert(lines[0], lines[1], lines[2]); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
