package leader

import (
	"fmt"
	"slices"
	"strings"
	"time"

	words "github.com/gleaner-hpc/gleaner/proto/spec"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// This file says, for users who look at a job, where it resumes, or what it
// waits for and what to type.

// sentence says where a waiting job can resume from its next image, or why
// nowhere, what becomes of it, and what that costs.
func (r *restores) sentence(sessions *session.Registry, view *state.View, job *state.Job, image *state.Image, now time.Time) string {
	older := ""
	if newest := &job.Images()[0]; newest.Number != image.Number {
		older = fmt.Sprintf(", and not from image %d, which cannot be had: %s of its work are done again", newest.Number, workText(newest, image))
	}
	if nodes := r.nodes(sessions, view, job, image, now); len(nodes) > 0 {
		return fmt.Sprintf("resumes from image %d on %s%s", image.Number, few(nodes), older)
	}
	then := "waits for that"
	if next, atMS := view.FallBack(job, image); next != nil {
		then = fmt.Sprintf("waits for that until %s, then resumes from image %d, which costs %s of work", time.UnixMilli(atMS).UTC().Format(time.RFC3339), next.Number, workText(&job.Images()[0], next))
	}
	if older != "" {
		older = fmt.Sprintf("; resumes from image %d%s", image.Number, older)
	}
	return fmt.Sprintf("%s; %s%s; %s", r.why(sessions, view, job, image, now), then, older, job.StartOverText())
}

// workText is the work of a job between two of its images.
func workText(newer, older *state.Image) string {
	return fmt.Sprintf("%d s", (max(newer.RanMS-older.RanMS, 0)+500)/1000)
}

// why says why no node can resume from an image of a job, as far as nodes
// reported.
func (r *restores) why(sessions *session.Registry, view *state.View, job *state.Job, image *state.Image, now time.Time) string {
	if node := missing(sessions, image); node != "" {
		return fmt.Sprintf("image %d lies on node %s, which is not connected", image.Number, node)
	}
	sets := slices.Concat(view.RestoreSets(job, image, r.refuses(sessions, image, now)))
	switch {
	case len(sets) == 0 && len(image.Allocs) > 1:
		return fmt.Sprintf("its own nodes, %s, are not all up with what it had there, and there are no %d others that could take it", words.FormatHostList(image.Nodes()), len(image.Allocs))
	case len(sets) == 0:
		return fmt.Sprintf("no node is up that has what it had when image %d was made", image.Number)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var said []string
	for _, set := range sets {
		for alloc, node := range set {
			ask := r.asks[restoreKey{image.Allocs[alloc].Digest, node}]
			switch {
			case sessions.Get(node) == nil:
				said = append(said, node+": is not connected")
			case ask == nil || ask.token != "" && ask.property == "":
				said = append(said, node+": no answer yet")
			case !ask.can:
				said = append(said, node+": "+strings.TrimSuffix(ask.reason, "."))
			}
		}
	}
	return few(said)
}

// few joins the first few of many texts.
func few(texts []string) string {
	const most = 4
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), len(texts)-most)
}
