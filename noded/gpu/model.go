package gpu

import (
	"regexp"
	"strings"
)

// Words in a product's name that say who made it or for which market, and
// nothing about the chip.
var brandWords = map[string]bool{
	"nvidia": true, "tesla": true, "quadro": true, "geforce": true, "grid": true, "graphics": true, "device": true,
}

// From one of these on, a product's name tells the form of the board and the
// amount of memory, no longer the model.
var formWord = regexp.MustCompile(
	`^(sxm[0-9]*|pcie?|nvl|hbm[0-9]*e?|[0-9]+gb?|mig|gpu|generation|server|workstation|edition|with|max)$`)

var notInAWord = regexp.MustCompile(`[^a-z0-9]+`)

// ModelWord makes the maker's product name into the one lower-case word that
// users ask for. The rule: split at everything but letters and digits; leave
// out the maker and the brand; stop at the first word that tells the board's
// form or memory; join what is left.
//
//	NVIDIA A100-SXM4-40GB            a100
//	NVIDIA H100 80GB HBM3            h100
//	NVIDIA GeForce RTX 3090 Ti       rtx3090ti
//	NVIDIA RTX 6000 Ada Generation   rtx6000ada
//
// A name of which nothing is left gives "gpu". Boards of one chip that differ
// in memory share a model; their memory is told apart by Device.MemoryBytes.
func ModelWord(product string) string {
	var kept []string
	for word := range strings.FieldsSeq(notInAWord.ReplaceAllString(strings.ToLower(product), " ")) {
		if brandWords[word] {
			continue
		}
		if len(kept) > 0 && formWord.MatchString(word) {
			break
		}
		kept = append(kept, word)
	}
	if len(kept) == 0 {
		return "gpu"
	}
	return strings.Join(kept, "")
}
