package spec

import (
	"slices"
	"strings"
	"testing"
)

func TestParseDependencies(t *testing.T) {
	for in, want := range map[string]string{
		"afterok:20:21,afterany:23":         "afterok:20,afterok:21,afterany:23",
		"afterok:20:21?afterany:23":         "afterok:20?afterok:21?afterany:23",
		"after:20+5:21":                     "after:20+5,after:21",
		"after:20_3+5":                      "after:20_3+5",
		"20,21":                             "afterany:20,afterany:21",
		"20?21":                             "afterany:20?afterany:21",
		"singleton":                         "singleton",
		"aftercorr:7,SINGLETON":             "aftercorr:7,singleton",
		"afternotok:7_0, afternotok:7_0":    "afternotok:7_0",
		"afterok:7_*":                       "afterok:7",
		"afterok:7_[1-2]:8,after:9_[4,6]+5": "afterok:7_1,afterok:7_2,afterok:8,after:9_4,after:9_6+5",
		"7_[1]?8":                           "afterany:7_1?afterany:8",
		"afterok:110(unfulfilled),after:5+1(failed)": "afterok:110,after:5+1",
		"singleton(unfulfilled)":                     "singleton",
		"":                                           "",
		" ":                                          "",
	} {
		got, err := ParseDependencies(in)
		if text := FormatDependencies(got, nil); err != nil || text != want {
			t.Errorf("%q reads %q, %v; want %q", in, text, err, want)
		}
	}
	got, err := ParseDependencies("after:9+2?singleton")
	want := []Dependency{{Kind: After, Job: 9, DelayMinutes: 2}, {Kind: Singleton}}
	if err != nil || !got.Any || !slices.Equal(got.List, want) {
		t.Errorf("%+v, %v", got, err)
	}
	text := FormatDependencies(got, func(i int) string { return []string{"unfulfilled", "failed"}[i] })
	if text != "after:9+2(unfulfilled)?singleton(failed)" {
		t.Error(text)
	}
}

func TestDependenciesRefused(t *testing.T) {
	for in, want := range map[string]string{
		"afterok:1_[0-4000000]":                "more than",
		"afterok:1_[x]":                        "names no tasks",
		"afterok:1_[1-2%1]":                    "names no tasks",
		"afterok:20,21":                        "afterany:21",
		"20,afterok:21":                        "type afterany:20",
		"afterok:1,afterok:2?afterok:3":        "only one of the two",
		"afterok:0":                            "begin at 1",
		"afterok":                              "needs the number of a job",
		"afterok:":                             "is no dependency",
		"afterok:x":                            "is no dependency",
		"afterok:5000000000":                   "not known",
		"afterok:5+1":                          "heterogeneous",
		"after:5+":                             "number of minutes",
		"after:5+99999999":                     "number of minutes",
		"after:5+-1":                           "number of minutes",
		"afterok:5_x":                          "one task of the array",
		"afterok:5_4000001":                    "one task of the array",
		"aftercorr:5_1":                        "name the array, aftercorr:5",
		"singleton:5":                          "singleton names no job",
		"expand:5":                             "expand is not supported",
		"afterburstbuffer:5":                   "no burst buffers",
		"afterwards:5":                         "is no dependency",
		",":                                    "is no dependency",
		"afterok:5,":                           "is no dependency",
		"afterok(failed):5":                    "needs the number of a job",
		"singleton(whatever)":                  "is no dependency",
		"afterok" + strings.Repeat(":1", 2000): "more than 1024",
	} {
		got, err := ParseDependencies(in)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), DependencyProblem) {
			t.Errorf("%.40q: %+v, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzDependencies(f *testing.F) {
	for _, seed := range []string{"afterok:20:21,afterany:23", "after:20_3+5?singleton", "1,2", "aftercorr:7(unfulfilled)", "afterok:1_*", "afterok:1_[1-2,9]", "1_[0-4000000]", ":", "after:1+"} {
		f.Add(seed)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in string) {
		d, err := ParseDependencies(in)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(d.List) > MaxDependencies {
			t.Fatalf("%d dependencies", len(d.List))
		}
		text := FormatDependencies(d, func(int) string { return "unfulfilled" })
		back, err := ParseDependencies(text)
		if err != nil || !slices.Equal(back.List, d.List) || len(d.List) > 1 && back.Any != d.Any {
			t.Fatalf("%q is written %q, which reads %+v, %v", in, text, back, err)
		}
	})
}
