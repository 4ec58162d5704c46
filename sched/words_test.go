package sched

import "fmt"

// The dialogues show reasons in words. Package explain has them, which imports
// this one: explain_words_test.go joins the two.
var (
	Display       func(Reason, Snapshot) string
	Sentence      func(Reason, Snapshot) string
	MovedSentence func(Moved, int64) string
	LimitReason   func(*LimitReached, Snapshot) string
	LimitSentence func(*LimitReached, Snapshot) string
)

// bytes and count write a placement.
func bytes(n uint64) string {
	switch {
	case n >= 10<<30 || n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dG", n>>30)
	case n >= 1<<20 || n == 0:
		return fmt.Sprintf("%dM", n>>20)
	}
	return count(n, "byte")
}

func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
