package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// stories are told in place of the weather: each brings about, step by step,
// what one protection is there for.
var stories = map[string]func(*test, context.Context) error{}

func storyNames() []string { return slices.Sorted(maps.Keys(stories)) }

// tell tells a story, and checks as after bad weather.
func (t *test) tell(ctx context.Context, name string) (int, error) {
	story := stories[name]
	if story == nil {
		return 2, fmt.Errorf("there is no story %q", name)
	}
	if err := story(t, ctx); err != nil {
		return 1, err
	}
	h := t.settle(ctx)
	return t.report(h, history.Check(h)), nil
}
