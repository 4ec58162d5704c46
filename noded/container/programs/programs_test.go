package programs

import "testing"

func TestAll(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	titles := map[string]string{}
	brief := 0
	for _, p := range all {
		if other := titles[p.Title]; other != "" {
			t.Errorf("%s and %s have one title", other, p.Name)
		}
		titles[p.Title] = p.Name
		if p.Brief {
			brief++
		}
		if p.Brief && (p.Refused != nil || p.Nodes != 1) {
			t.Errorf("%s is brief, and cannot be moved", p.Name)
		}
	}
	if len(all) < 20 || brief < 5 {
		t.Errorf("there are %d programs, %d of them brief", len(all), brief)
	}
}

func TestFilesOfTheListAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no title":       "",
		"no script":      "title\n-- other --\n",
		"unknown key":    "title\nmemroy: 1G\n-- run --\n",
		"bad expression": "title\nrefused: (\n-- run --\n",
		"bad number":     "title\nnodes: two\n-- run --\n",
		"files of two":   "title\nas: other\n-- run --\n",
	} {
		if _, err := parse("x", []byte(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
