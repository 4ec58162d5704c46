package control

import (
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// shownEntity is one thing that gcontrol can show.
type shownEntity struct {
	names []string // the first is the usual one; a beginning of one will do
	local bool
	run   func(c *controlRun, id string) error
	// narrowed, in place of run, takes several words that narrow what is shown.
	narrowed func(c *controlRun, words []string) error
}

func shownEntities() []shownEntity {
	return []shownEntity{
		{names: []string{"job", "jobs", "jobid"}, run: showJob},
		{names: []string{"node", "nodes", "nodename"}, run: showNode},
		{names: []string{"partition", "partitions", "partitionname"}, run: showPartition},
		{names: []string{"config"}, run: showConfig},
		{names: []string{"topology"}, run: showTopology},
		{names: []string{"licenses"}, run: showLicenses},
		{names: []string{"reservation", "reservations", "reservationname"}, run: showReservation},
		{names: []string{"assoc_mgr"}, narrowed: showAssocMgr},
		{names: []string{"step", "steps", "stepid"}, run: showStep},
		{names: []string{"hostnames"}, local: true, run: showHostNames},
		{names: []string{"hostlist"}, local: true, run: showHostList},
		{names: []string{"hostlistsorted"}, local: true, run: showHostListSorted},
	}
}

// EntityNames are what can be shown.
func EntityNames() []string {
	var names []string
	for _, entity := range shownEntities() {
		names = append(names, entity.names[0])
	}
	return names
}

// laterEntities are what scontrol shows and gcontrol refuses by name.
var laterEntities = map[string]string{
	"burstbuffer": "there are no burst buffers", "bbstat": "there are no burst buffers", "dwstat": "there are no burst buffers",
	"federation": "this cluster is the only one", "frontend": "there are no front ends", "frontends": "there are no front ends",
	"aliases": "use gcontrol show node", "daemons": "ask the service manager of this machine", "slurmd": "use gcontrol show node",
}

// splitEntity reads "job 12", "job=12" and "job".
func splitEntity(words []string) (entity, id string, extra bool) {
	if len(words) == 0 {
		return "", "", false
	}
	entity, id, attached := strings.Cut(words[0], "=")
	rest := words[1:]
	if !attached && len(rest) > 0 {
		id, rest = rest[0], rest[1:]
	}
	return entity, id, len(rest) > 0
}

// findEntity finds what is to be shown by its name, in any case, or by a
// beginning of it; the first that fits, as in scontrol.
func findEntity(word string) (shownEntity, bool) {
	word = strings.ToLower(word)
	for _, exact := range []bool{true, false} {
		for _, entity := range shownEntities() {
			for _, name := range entity.names {
				if name == word || !exact && word != "" && strings.HasPrefix(name, word) {
					return entity, true
				}
			}
		}
	}
	return shownEntity{}, false
}

// localEntity reports whether something can be shown without a controller.
func localEntity(words []string) bool {
	word, _, _ := splitEntity(words)
	entity, known := findEntity(word)
	return known && entity.local || !known
}

func controlShow(c *controlRun, words []string) error {
	word, id, extra := splitEntity(words)
	if word == "" {
		return c.tooFew("show")
	}
	if remedy, known := laterEntities[strings.ToLower(word)]; known {
		return &option.LaterError{Name: "show " + strings.ToLower(word), Remedy: remedy}
	}
	entity, known := findEntity(word)
	switch {
	case !known:
		return c.noEntity(word, "show")
	case entity.narrowed != nil:
		return entity.narrowed(c, words[1:])
	case extra:
		return c.tooMany("show")
	case c.json != show.JSONNone && entity.local:
		return c.inv.Fail("show %s has no JSON; leave --json out", entity.names[0])
	}
	return entity.run(c, id)
}
