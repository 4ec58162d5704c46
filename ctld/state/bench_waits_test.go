package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// BenchmarkDependents is the end of one job on which others depend, and that of
// one among many of its name that wait as singletons.
func BenchmarkDependents(b *testing.B) {
	for _, kind := range []spec.DependencyKind{spec.AfterAny, spec.Singleton} {
		for _, count := range []int{0, 100, 10_000} {
			b.Run(fmt.Sprintf("%s=%d", kind, count), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					s, entry := dependedOn(b, kind, count)
					s.View()
					b.StartTimer()
					mustApply(b, s, s.index+1, entry)
				}
			})
		}
	}
}

// dependedOn is a state with a job that runs and others that wait for it, and
// the entry that ends it.
func dependedOn(b *testing.B, kind spec.DependencyKind, count int) (*State, []byte) {
	s := roomy()
	apply := func(command Command) {
		entry, err := Encode(command, RequestID{}, 1_000_000)
		if err != nil {
			b.Fatal(err)
		}
		if result := mustApply(b, s, s.index+1, entry); result.Refused != nil {
			b.Fatal(result.Refused)
		}
	}
	submit := SubmitJob{Owner: Owner{UID: 1000, User: "u"}, Own: Own{Name: "j"}, Script: []byte("#!/bin/sh\n")}
	apply(RegisterNode{Name: "n1", Inventory: Inventory{CPUs: 4, MemoryBytes: 64, BootID: "b"}})
	apply(submit)
	apply(PlaceJobs{Starts: []StartOrder{{Job: 1, Partition: "main", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}, Tasks: 1}}}}})
	one := Dependency{Kind: kind}
	if kind != spec.Singleton {
		one.Job = 1
	}
	submit.Dependencies = Dependencies{List: []Dependency{one}}
	for range count {
		apply(submit)
	}
	entry, err := Encode(AllocsEnded{Reports: []AllocReport{{Job: 1, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_EXITED}}}, RequestID{}, 2_000_000)
	if err != nil {
		b.Fatal(err)
	}
	return s, entry
}
