package memory

import "testing"

func TestThisMachine(t *testing.T) {
	total, err := Total()
	if err != nil {
		t.Fatal(err)
	}
	available, err := Available()
	if err != nil {
		t.Fatal(err)
	}
	if available == 0 || available > total {
		t.Errorf("%d bytes of %d are available", available, total)
	}
}

func TestAvailable(t *testing.T) {
	for _, test := range []struct {
		meminfo string
		want    uint64 // 0 = an error
	}{
		{"MemTotal:       16 kB\nMemFree: 1 kB\nMemAvailable:    4 kB\nBuffers: 2 kB\n", 4096},
		{"MemAvailable: 17179869183 kB\n", 17179869183 << 10},
		{"MemAvailable: 99999999999999999 kB\n", 0},
		{"MemAvailable: -1 kB\n", 0},
		{"MemAvailable:\n", 0},
		{"MemTotal: 16 kB\nMemFree: 4 kB\n", 0}, // a kernel before 3.14
		{"", 0},
	} {
		got, err := available(test.meminfo)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%q: %d, %v; want %d", test.meminfo, got, err, test.want)
		}
	}
}
