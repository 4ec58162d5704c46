package show

import (
	"cmp"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func hostName(n *pb.Node) string { return cmp.Or(n.GetInventory().GetHostName(), n.Name) }

func nodeAddress(n *pb.Node) string { return cmp.Or(n.GetInventory().GetAddress(), hostName(n)) }

// NaturalKey makes "n2" sort before "n10": every run of digits is preceded by
// its length.
func NaturalKey(name string) string {
	var key strings.Builder
	for i := 0; i < len(name); {
		j := i
		for j < len(name) && name[j] >= '0' && name[j] <= '9' {
			j++
		}
		if j > i {
			run := strings.TrimLeft(name[i:j], "0")
			key.WriteByte('0')
			key.WriteByte(byte(min(len(run), 255)))
			key.WriteString(run)
			i = j
			continue
		}
		key.WriteByte(name[i])
		i++
	}
	return key.String()
}
