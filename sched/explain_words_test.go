package sched_test

import (
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
)

func init() {
	sched.Display, sched.Sentence = explain.Display, explain.Sentence
	sched.MovedSentence = explain.Moved
	sched.LimitReason, sched.LimitSentence = explain.LimitReason, explain.LimitSentence
}
