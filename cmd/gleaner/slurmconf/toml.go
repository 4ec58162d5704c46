package slurmconf

import (
	"fmt"
	"strings"
)

// bounds.Quoted is a text of TOML.
func quoted(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&out, `\u%04X`, c)
		default:
			out.WriteRune(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// list is a list of texts of TOML, from names joined by commas.
func list(names string) string {
	var out []string
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, quoted(name))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func boolean(value string) string {
	switch strings.ToLower(value) {
	case "yes", "y", "true", "1", "up":
		return "true"
	}
	return "false"
}
