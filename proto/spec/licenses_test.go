package spec

import (
	"strings"
	"testing"
)

func TestLicenses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"matlab", "matlab"},
		{"matlab:2,fluent", "fluent,matlab:2"},
		{"foo:4,bar", "bar,foo:4"},
		{" foo:1 , bar ", "bar,foo"},
	} {
		licenses, err := ParseLicenses(c.text)
		if err != nil || FormatLicenses(licenses) != c.want {
			t.Errorf("%q: %q, %v", c.text, FormatLicenses(licenses), err)
		}
	}
	for text, remedy := range map[string]string{
		"":                               "type its name",
		"a|b":                            "joined with commas",
		"a;b":                            "joined with commas",
		"nastran@slurmdb:12":             "leave out the @",
		"a,a:2":                          "name it once",
		"a:0":                            "from 1 to",
		"a:-1":                           "from 1 to",
		"a:1000001":                      "from 1 to",
		"a:":                             "from 1 to",
		"a,,b":                           "type its name",
		"a b":                            "type its name",
		strings.Repeat("x", 300):         "type its name",
		"l0" + manyLicenses(MaxLicenses): "more than",
	} {
		if _, err := ParseLicenses(text); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%.40q: %v, which does not say %q", text, err, remedy)
		}
	}
}

func manyLicenses(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(",l" + strings.Repeat("1", i+1))
	}
	return text.String()
}

func FuzzParseLicenses(f *testing.F) {
	f.Add("matlab:2,fluent")
	f.Add("a@b:1|c")
	f.Fuzz(func(t *testing.T, text string) {
		licenses, err := ParseLicenses(text)
		if err != nil {
			return
		}
		again, err := ParseLicenses(FormatLicenses(licenses))
		if err != nil || FormatLicenses(again) != FormatLicenses(licenses) {
			t.Errorf("%q is written %q and read back as %q, %v", text, FormatLicenses(licenses), FormatLicenses(again), err)
		}
	})
}
