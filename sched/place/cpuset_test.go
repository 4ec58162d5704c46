package place

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCPUSet(t *testing.T) {
	s := NewCPUSet(3, 1, 64, 1)
	if got := s.IDs(); !slices.Equal(got, []uint32{1, 3, 64}) || s.Count() != 3 {
		t.Errorf("IDs %v, Count %d", got, s.Count())
	}
	for text, set := range map[string]CPUSet{
		"":         {},
		"1,3,64":   s,
		"0-3":      FirstCPUs(4),
		"0-127":    FirstCPUs(128),
		"1-3,64":   s.Add(2),
		"1,3":      s.Remove(64, 99),
		"0-4,64":   s.Union(FirstCPUs(5)),
		"64":       s.Minus(FirstCPUs(5)),
		"3":        s.Intersect(NewCPUSet(2, 3, 4)),
		"1":        s.Take(1),
		"0-9":      FirstCPUs(70).Take(10),
		"0-64":     FirstCPUs(70).Take(65),
		"65535":    NewCPUSet(MaxCPUs-1, MaxCPUs, 1<<32-1),
		"63-64,66": NewCPUSet(66, 64, 63),
	} {
		if set.String() != text {
			t.Errorf("got %q, want %q", set, text)
		}
		if set.Empty() != (text == "") {
			t.Errorf("%q: Empty is %v", text, set.Empty())
		}
	}
	if !s.Minus(s).Equal(CPUSet{}) || s.Take(0).Count() != 0 || !s.Take(99).Equal(s) {
		t.Error("an empty or a whole set is not equal to itself")
	}
	for id := range s.All() {
		if id != 1 {
			t.Errorf("the first id is %d", id)
		}
		break
	}
}

func TestCPUSetAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var ids [2][]uint32
		for i := range ids {
			for range random.IntN(20) {
				ids[i] = append(ids[i], random.Uint32N(200))
			}
		}
		a, b := NewCPUSet(ids[0]...), NewCPUSet(ids[1]...)
		n := random.IntN(12)
		taken := a.Take(n)
		if taken.Count() != min(n, a.Count()) || !a.Minus(taken).Union(taken).Equal(a) {
			t.Fatalf("%s.Take(%d) = %s", a, n, taken)
		}
		for id := range uint32(200) {
			inA, inB := slices.Contains(ids[0], id), slices.Contains(ids[1], id)
			if a.Contains(id) != inA || a.Union(b).Contains(id) != (inA || inB) ||
				a.Minus(b).Contains(id) != (inA && !inB) || a.Intersect(b).Contains(id) != (inA && inB) {
				t.Fatalf("id %d in %s and %s", id, a, b)
			}
		}
		if !a.Minus(b).Union(a.Intersect(b)).Equal(a) {
			t.Fatalf("%s and %s", a, b)
		}
	}
}
