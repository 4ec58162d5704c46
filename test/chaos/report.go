package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// maxShown bounds the violations that are printed; the file has all.
const maxShown = 40

// processesBelow are processes of jobs and supervisors that still run.
func processesBelow(directory string) []string {
	var left []string
	for _, process := range host.Processes() {
		words := strings.Join(process.Words, " ")
		if isShim(process.Words) || isInit(process.Words) || process.Words[0] == filepath.Join(directory, "bin", "record") {
			left = append(left, fmt.Sprintf("process %d: %s", process.PID, words))
		}
	}
	return left
}

// report prints the summary and returns the exit status.
func (t *test) report(h *history.History, found []history.Violation) int {
	t.failed = append(t.failed, t.weather.failed...)
	if t.watch.twoLeaders != "" {
		t.failed = append(t.failed, "two leaders: "+t.watch.twoLeaders)
	}
	t.keep(h, found)
	for i, violation := range found {
		if i == maxShown {
			t.out.plain("and %d more, in %s", len(found)-maxShown, historyFile)
			break
		}
		t.out.plain("WRONG  %s", violation)
	}
	for _, failure := range t.failed {
		t.out.plain("WRONG  %s", failure)
	}
	t.summary(h, found)
	if len(found)+len(t.failed) > 0 {
		return 1
	}
	return 0
}

func (t *test) summary(h *history.History, found []history.Violation) {
	counts := map[history.Wrong]int{}
	for _, violation := range found {
		counts[violation.Wrong]++
	}
	states := map[string]int{}
	requeued := 0
	for _, job := range h.Jobs {
		states[job.State]++
		requeued += int(job.Restarts)
	}
	accepted, unanswered := t.journal.counts()
	_, leaderless := t.watch.state()
	t.out.plain("chaos: %.1f minutes, seed %d, faults %s", time.Since(t.started).Minutes(), t.options.seed, t.weather.summary())
	t.out.plain("jobs: %d submissions accepted (%d more of unknown fate), %d jobs finished (%d completed, %d failed, %d cancelled, %d timed out, %d preempted, %d by node failure), %d requeues, %d runs recorded",
		accepted, unanswered, len(h.Jobs)-counts[history.NotEnded], states["COMPLETED"], states["FAILED"], states["CANCELLED"], states["TIMEOUT"], states["PREEMPTED"], states["NODE_FAIL"], requeued, len(h.Runs))
	exactly, back, silent := h.Moves()
	t.out.plain("saves: jobs resumed from an image %d times: %d times with the next number, %d times with one that they had written, %d times they were ended before they wrote one; one with GPUs %d times; gaps %d, repeated against their wish %d, other devices %d",
		exactly+back+silent, exactly, back, silent, h.MostMoves(), counts[history.Gap], counts[history.Repeated], counts[history.OtherDevices])
	t.out.plain("history: %d runs that are over in the databases of %d controllers: lost %d, doubled %d, wrong %d", pastRuns(h), len(h.Databases), counts[history.HistoryLost], counts[history.HistoryDoubled], counts[history.HistoryWrong])
	for _, line := range promisesText(h) {
		t.out.plain("%s", line)
	}
	t.out.plain("lost %d, doubled %d, ran twice at once %d, devices twice %d, gangs in part %d, requeued against their wish %d, never accepted %d, wrong ends %d, not ended %d, untouched but ended %d, too early %d, limits passed %d, not free %d, left behind %d, else %d",
		counts[history.Lost], counts[history.Doubled], counts[history.Overlap], counts[history.DeviceTwice], counts[history.PartialGang], counts[history.BadRequeue],
		counts[history.NotAccepted], counts[history.WrongEnd], counts[history.NotEnded], counts[history.Touched], counts[history.TooEarly], counts[history.LimitPassed], counts[history.NodeNotFree], counts[history.LeftBehind], len(t.failed))
	t.out.plain("worst time without a leader %.1f s in %d elections; worst time until a submission succeeded again %.1f s; the operator resumed %d nodes and released %d jobs",
		leaderless.Seconds(), t.watch.elections, t.journal.worstGap.Seconds(), t.watch.resumed, t.watch.released)
}

// historyFile holds all that the checker saw, to investigate a failure.
const historyFile = "history.json"

// keep writes the history among the logs.
func (t *test) keep(h *history.History, found []history.Violation) {
	text, err := json.MarshalIndent(map[string]any{"history": h, "wrong": found}, "", " ")
	if err == nil {
		err = os.WriteFile(t.path(logFolder, historyFile), text, 0o644)
	}
	if err != nil {
		t.out.say("the history could not be kept: %v", err)
	}
}
