package show

import "fmt"

// SizeText is an amount of bytes: "512 bytes", "1.3 MiB".
func SizeText(bytes uint64) string {
	if bytes < 1<<10 {
		return Digits(bytes) + " bytes"
	}
	unit, value := 0, float64(bytes)/1024
	for ; value >= 1024 && unit < 4; unit++ {
		value /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[unit])
}

// SecondsOf writes milliseconds: "0.8 s".
func SecondsOf(ms uint64) string { return fmt.Sprintf("%d.%d s", ms/1000, ms%1000/100) }
