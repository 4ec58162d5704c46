package spec

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// slowMS is from how many milliseconds on owners are told which part was the slowest, of a
// guest that was in time.
const slowMS = 1000

// FormatFreed says what a node has measured of a guest that left its hardware to the owner:
// "its node took 0.35 s, freezing its processes: 0.30 s; that was 0.10 s late".
// "" = it has said nothing.
func FormatFreed(freed *pb.HardwareFreed) string {
	if freed.GetTookMs() == 0 {
		return ""
	}
	text := "its node took " + hundredths(freed.GetTookMs())
	if freed.GetSlowest() != "" && (freed.GetLateMs() > 0 || freed.GetSlowestMs() >= slowMS) {
		text += fmt.Sprintf(", %s: %s", freed.GetSlowest(), hundredths(freed.GetSlowestMs()))
	}
	if freed.GetLateMs() > 0 {
		text += fmt.Sprintf("; that was %s late", hundredths(freed.GetLateMs()))
	}
	return text
}

// hundredths is a time in seconds: "0.35 s".
func hundredths(ms uint32) string { return fmt.Sprintf("%d.%02d s", ms/1000, ms%1000/10) }
