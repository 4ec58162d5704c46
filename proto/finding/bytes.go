package finding

import "fmt"

// Bytes is a size for humans: "23.5 GiB".
func Bytes(n uint64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/step, 0
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for size >= step && unit < len(units)-1 {
		size, unit = size/step, unit+1
	}
	if size >= 100 {
		return fmt.Sprintf("%.0f %s", size, units[unit])
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
