// Package show is how jobs, nodes, partitions and limits look: as columns of a
// table, as scontrol's records of Key=value, and as JSON. Every command that shows
// one of them shows it this way.
//
// Texts come from a View, which has the clock and the user's wishes; nothing here
// asks a controller. What a controller says is made harmless to terminals by
// package format when a row or an Item is written.
package show

import (
	"strconv"
	"strings"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// null is what Slurm prints for a text that is not there.
const null = "(null)"

// maxTaskExpression is how much of an array's task expression is shown, in
// bytes, unless SLURM_BITSTR_LEN says otherwise (squeue(1)).
const maxTaskExpression = 64

// View is what the words of a table depend on apart from the row: the local
// clock and what the user's environment says about how things are written.
type View struct {
	NowMS         int64
	Cluster       string // its name, once an answer has told it
	timeFormat    string // SLURM_TIME_FORMAT
	location      *time.Location
	WholeUnits    bool // --noconvert: megabytes only
	maxExpression int  // bytes; 0 = no limit
}

// NewView takes the clock and the environment of one call.
func NewView(getenv func(string) string, now time.Time) *View {
	v := &View{NowMS: now.UnixMilli(), location: now.Location(), maxExpression: maxTaskExpression}
	v.timeFormat = getenv("SLURM_TIME_FORMAT")
	if n, err := strconv.Atoi(getenv("SLURM_BITSTR_LEN")); err == nil && n >= 0 {
		v.maxExpression = n
	}
	return v
}

// Stamp is a point in time as Slurm writes it, or absent for 0.
func (v *View) Stamp(ms int64, absent string) string {
	if ms == 0 {
		return absent
	}
	t := time.UnixMilli(ms).In(v.location)
	switch v.timeFormat {
	case "", "standard":
		return t.Format("2006-01-02T15:04:05")
	case "relative":
		return v.relative(t)
	}
	return strftime(v.timeFormat, t)
}

// relative is the short form of SLURM_TIME_FORMAT=relative.
func (v *View) relative(t time.Time) string {
	now := time.UnixMilli(v.NowMS).In(v.location)
	noon := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), 12, 0, 0, 0, time.UTC)
	}
	switch days := int(noon(t).Sub(noon(now)).Hours() / 24); {
	case days == 0:
		return t.Format("15:04:05")
	case days == 1:
		return t.Format("Tomorr 15:04")
	case days == -1:
		return t.Format("Ystday 15:04")
	case days > 1 && days < 7:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006")
}

// conversions are the fields of strftime(3) that have a counterpart here.
var conversions = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05",
	'p': "PM", 'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'z': "-0700", 'Z': "MST",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

// strftime writes a time by a format of strftime(3); what it does not know
// stays as it is.
func strftime(layout string, t time.Time) string {
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			out.WriteByte(layout[i])
			continue
		}
		i++
		switch known, ok := conversions[layout[i]]; {
		case ok:
			out.WriteString(t.Format(known))
		case layout[i] == 's':
			out.WriteString(strconv.FormatInt(t.Unix(), 10))
		case layout[i] == '%':
			out.WriteByte('%')
		default:
			out.WriteString(layout[i-1 : i+1])
		}
	}
	return out.String()
}

// memory is an amount of memory in the largest unit that loses nothing of its
// whole megabytes; what is below a megabyte Slurm does not show either.
func (v *View) memory(bytes uint64) string {
	if v.WholeUnits {
		return strconv.FormatUint(bytes>>20, 10) + "M"
	}
	return spec.FormatSize(bytes >> 20 << 20)
}

// clip keeps a task expression within the view's limit, cut after a comma.
func (v *View) clip(expression string) string {
	if v.maxExpression == 0 || len(expression) <= v.maxExpression {
		return expression
	}
	cut := expression[:v.maxExpression]
	if comma := strings.LastIndexByte(cut, ','); comma > 0 {
		cut = cut[:comma+1]
	}
	return cut + "..."
}

// clockText is a duration as scontrol writes it: "00:01:00", "1-02:03:04".
func clockText(seconds uint32) string {
	if seconds == spec.Unlimited {
		return "UNLIMITED"
	}
	two := func(n uint32) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }
	text := two(seconds/3600%24) + ":" + two(seconds/60%60) + ":" + two(seconds%60)
	if days := seconds / 86400; days > 0 {
		return strconv.FormatUint(uint64(days), 10) + "-" + text
	}
	return text
}

// OrNull is the text, or (null).
func OrNull(text string) string {
	if text == "" {
		return null
	}
	return text
}

// yesNo is Slurm's spelling of a truth.
func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// oneZero is the other one.
func oneZero(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Digits is a count as text.
func Digits[N uint32 | uint64 | int | int32](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

// gresText is what a job asked for in GPUs of one scope, as squeue's %b
// writes it: "gres/gpu:a100:2".
func gresText(spec *pb.JobSpec, scope pb.GpuScope) string {
	var parts []string
	for _, request := range spec.GetGpus() {
		if request.Scope != scope {
			continue
		}
		text := "gres/gpu"
		if request.Model != "" {
			text += ":" + request.Model
		}
		parts = append(parts, text+":"+Digits(request.Count))
	}
	return strings.Join(parts, ",")
}
