package gpumem

import "testing"

// FuzzParked: what is read of an image names each process once.
func FuzzParked(f *testing.F) {
	for _, seed := range []string{`{"processes":[{"pid":7,"inside":3,"started":5,"devices":true}]}`, `{}`, `{"processes":[{"inside":-1}]}`, `{"processes":[{"inside":2},{"inside":2}]}`, "[", `{"x":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parked, err := decodeParked(data)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		seen := map[int]bool{}
		for _, p := range parked.Processes {
			if p.Inside <= 0 || seen[p.Inside] {
				t.Fatalf("%+v", parked)
			}
			seen[p.Inside] = true
		}
		if len(seen) == 0 {
			t.Fatal("it names none")
		}
	})
}
