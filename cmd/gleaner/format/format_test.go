package format

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type animal struct {
	name  string
	legs  int
	star  bool
	notes string
}

var animals = NewTable([]Field[animal]{
	{Letter: 'n', Names: []string{"Name"}, Header: "NAME", Value: func(a animal) string { return a.name },
		Mark: func(a animal) string {
			if a.star {
				return "*"
			}
			return ""
		}},
	{Letter: 'l', Names: []string{"Legs", "feet"}, Header: "LEGS", Value: func(a animal) string { return string(rune('0' + a.legs)) },
		Compare: func(a, b animal) int { return cmp.Compare(a.legs, b.legs) }},
	{Names: []string{"NotesLong"}, Header: "NOTES", Value: func(a animal) string { return a.notes }},
})

func TestShort(t *testing.T) {
	cases := []struct {
		spec, header, row string
		animal            animal
	}{
		{"%n", "NAME\n", "hen\n", animal{name: "hen"}},
		{"%.6n|%l", "  NAME|LEGS\n", "   hen|2\n", animal{name: "hen", legs: 2}},
		{"%6n|", "NAME  |\n", "hen   |\n", animal{name: "hen"}},
		{"%2n", "NA\n", "he\n", animal{name: "hen"}},
		{"%.2n", "NA\n", "he\n", animal{name: "hen"}},
		{`"%n" '%l'`, "\"NAME\" 'LEGS'\n", "\"hen\" '2'\n", animal{name: "hen", legs: 2}},
		{"legs: %l of %n", "legs: LEGS of NAME\n", "legs: 2 of hen\n", animal{name: "hen", legs: 2}},
		{"%%n", "NAME\n", "hen\n", animal{name: "hen"}},
		{"no fields", "no fields\n", "no fields\n", animal{}},
		{"", "\n", "\n", animal{}},
		{"%4n|", "NAME|\n", "hen*|\n", animal{name: "hen", star: true}},
		{"%3n|", "NAM|\n", "he*|\n", animal{name: "hen", star: true}},
		{"%.6n|", "  NAME|\n", "  hen*|\n", animal{name: "hen", star: true}},
		{"%n", "NAME\n", "a?[31m?\n", animal{name: "a\x1b[31m\n"}},
		{"%2n", "NA\n", "äö\n", animal{name: "äöü"}},
		{"%n", "NAME\n", "??\n", animal{name: "\xff\u202e"}},
		{"%6n|", "NAME  |\n", "日本  |\n", animal{name: "日本"}},
		{"%.6n|", "  NAME|\n", "  日本|\n", animal{name: "日本"}},
		{"%3n|", "NAM|\n", "日 |\n", animal{name: "日本"}},
		{"%4n|", "NAME|\n", "e\u0301x  |\n", animal{name: "e\u0301x"}},
		{"%ALL", "NAME|LEGS|NOTES\n", "hen*|2|x\n", animal{name: "hen", star: true, legs: 2, notes: "x"}},
	}
	for _, c := range cases {
		layout, err := animals.ParseShort(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		if got := string(layout.Header(nil)); got != c.header {
			t.Errorf("%q: header %q, want %q", c.spec, got, c.header)
		}
		if got := string(layout.Row(nil, c.animal)); got != c.row {
			t.Errorf("%q: row %q, want %q", c.spec, got, c.row)
		}
	}
}

func TestLong(t *testing.T) {
	cases := []struct{ spec, header, row string }{
		{"Name", "NAME                \n", "hen                 \n"},
		{"name:5,LEGS:.6", "NAME   LEGS\n", "hen       2\n"},
		{"Feet:3|", "LEG|\n", "2  |\n"},
		{"Name:|", "NAME|\n", "hen|\n"},
		{"Name:.|", "NAME|\n", "hen|\n"},
		{"Name:2^^^,Legs:1", "NA^^^L\n", "he^^^2\n"},
		{" Name:4, Legs:4", "NAMELEGS\n", "hen 2   \n"},
		{"all", "NAME|LEGS|NOTES\n", "hen|2|x\n"},
	}
	for _, c := range cases {
		layout, err := animals.ParseLong(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		if got := string(layout.Header(nil)); got != c.header {
			t.Errorf("%q: header %q, want %q", c.spec, got, c.header)
		}
		if got := string(layout.Row(nil, animal{name: "hen", legs: 2, notes: "x"})); got != c.row {
			t.Errorf("%q: row %q, want %q", c.spec, got, c.row)
		}
	}
}

func TestRefused(t *testing.T) {
	short := func(s string) error { _, err := animals.ParseShort(s); return err }
	long := func(s string) error { _, err := animals.ParseLong(s); return err }
	order := func(s string) error { _, err := animals.ParseSort(s); return err }
	cases := []struct {
		parse func(string) error
		spec  string
		want  error
		says  string
	}{
		{short, "%n %q", ErrUnknownField, "the letters are nl"},
		{short, "%12", ErrUnknownField, "names no field"},
		{short, "%99999n", ErrBadFormat, "at most 4096"},
		{short, "%n" + strings.Repeat("x", MaxSpecBytes), ErrBadFormat, "longer than"},
		{short, strings.Repeat("%n", MaxColumns+1), ErrBadFormat, "more than 1024"},
		{long, "Nmae", ErrUnknownField, "did you mean Name?"},
		{long, "notes", ErrUnknownField, "did you mean NotesLong?"},
		{long, "wings", ErrUnknownField, "the fields are Name,Legs,NotesLong"},
		{long, strings.Repeat("x", 60000), ErrUnknownField, "the fields are Name,Legs,NotesLong"},
		{order, "n,-q", ErrUnknownField, "to sort by"},
	}
	for _, c := range cases {
		if err := c.parse(c.spec); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20q: %v, want %v that says %q", c.spec, err, c.want, c.says)
		}
	}
}

func TestFit(t *testing.T) {
	layout, err := animals.ParseShort("%#n|%.#l|")
	if err != nil {
		t.Fatal(err)
	}
	zoo := []animal{{name: "hen", legs: 2}, {name: "caterpillar", legs: 6, star: true}}
	layout.Fit(zoo)
	got := string(layout.Header(nil)) + string(layout.Row(nil, zoo[0])) + string(layout.Row(nil, zoo[1]))
	want := "NAME        |LEGS|\nhen         |   2|\ncaterpillar*|   6|\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if !layout.Has("Name") || layout.Has("NotesLong") {
		t.Error("Has does not say what is shown")
	}
}

func TestSort(t *testing.T) {
	zoo := []animal{{name: "hen", legs: 2}, {name: "cat", legs: 4}, {name: "ant", legs: 6}, {name: "man", legs: 2}}
	for spec, want := range map[string]string{"n": "ant cat hen man", "-l,n": "ant cat hen man", "l,-n": "man hen cat ant", "+feet,name": "hen man cat ant", "": "hen cat ant man"} {
		compare, err := animals.ParseSort(spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		sorted := slices.Clone(zoo)
		slices.SortStableFunc(sorted, compare)
		var names []string
		for _, a := range sorted {
			names = append(names, a.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s, want %s", spec, got, want)
		}
	}
}

func TestTableRefusesTwins(t *testing.T) {
	for _, fields := range [][]Field[int]{{{Letter: 'a'}, {Letter: 'a'}}, {{Names: []string{"X"}}, {Names: []string{"x"}}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a table with two fields alike was made")
				}
			}()
			NewTable(fields)
		}()
	}
}

// FuzzFormat: whatever is asked for, a row is one line of valid text without
// control characters of the value, and every sized column is exactly as wide
// as asked.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{"%.18n %.9l", "%n|", "Name:5,Legs:.6|", "%all", "%#n", "%%%%", "%.", "Name:", ":5", ",,,", "%999999999999n", "%\xff"} {
		f.Add(seed, "hen\x1b\n")
	}
	f.Fuzz(func(t *testing.T, spec, value string) {
		row := animal{name: value, legs: 3, notes: value, star: true}
		short, err := animals.ParseShort(spec)
		if err == nil {
			check(t, short, row)
		}
		long, err := animals.ParseLong(spec)
		if err == nil {
			check(t, long, row)
		}
		if compare, err := animals.ParseSort(spec); err == nil && compare(row, row) != 0 {
			t.Error("a row differs from itself")
		}
	})
}

func check(t *testing.T, layout *Layout[animal], row animal) {
	layout.Fit([]animal{row})
	for i := range layout.columns {
		layout.columns[i].suffix = ""
	}
	layout.prefix = ""
	line := layout.Row(nil, row)
	if !utf8.Valid(line) || slices.Contains(line[:len(line)-1], '\n') || slices.Contains(line, 0x1b) {
		t.Errorf("row %q", line)
	}
	for _, c := range layout.columns {
		if c.width == 0 {
			continue
		}
		if got := utf8.RuneCount(c.cell(nil, c.field.Value(row), c.field.mark(row), false)); got != max(c.width, len(c.field.mark(row))) {
			t.Errorf("a column of width %d is %d wide", c.width, got)
		}
	}
}

func BenchmarkRow(b *testing.B) {
	layout, err := animals.ParseShort("%.18n %.9l %.8n %.8n %.2n %.10n %.6n %n")
	if err != nil {
		b.Fatal(err)
	}
	row, line := animal{name: "caterpillar", legs: 6}, []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		line = layout.Row(line[:0], row)
	}
}

// TestCells: a cell has its width on a terminal, whatever is in it.
func TestCells(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"hen", 5, "  hen"}, {"hen", -5, "hen  "}, {"chicken", 5, "chic+"}, {"日本語", 8, "  日本語"}, {"日本語", -8, "日本語  "},
		{"日本語", 5, "日本+"}, {"日本語", 4, " 日+"}, {"日本語", -4, "日+ "}, {"e\u0301e\u0301", 3, " e\u0301e\u0301"}, {"\u200b日", 4, " ?日"}, {"😀", 3, " 😀"}, {"日", 1, "+"},
	} {
		if got := string(AppendCell(nil, c.text, c.width)); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
