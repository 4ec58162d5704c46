package noded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/roots"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file does what people ask of the node's cache of container images (gimage).

const (
	// maxTends bounds such orders at once, and maxPullsAhead those of them that pull or read
	// whole images, so that no user keeps the node's disk busy.
	maxTends      = 16
	maxPullsAhead = 2
	// tendPatience bounds one order.
	tendPatience = 2 * time.Hour
	// progressEvery is how often progress is told at most.
	progressEvery = time.Second
	// progressAgain is how often it is told though it is the same.
	progressAgain = 10 * time.Second
)

// tends are the orders that are being carried out.
type tends struct {
	all, heavy *semaphore.Weighted
	mu         sync.Mutex
	running    map[string]context.CancelFunc // by token
}

func newTends() *tends {
	return &tends{all: semaphore.NewWeighted(maxTends), heavy: semaphore.NewWeighted(maxPullsAhead), running: map[string]context.CancelFunc{}}
}

// begin notes an order; false = it is being carried out.
func (t *tends) begin(token string, cancel context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[token] != nil {
		return false
	}
	t.running[token] = cancel
	return true
}

// end forgets an order, and stops it if it is being carried out.
func (t *tends) end(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel := t.running[token]; cancel != nil {
		cancel()
		delete(t.running, token)
	}
}

// tendContainerImages carries out an order, and answers each of its steps.
func (a *agent) tendContainerImages(ctx context.Context, order *pb.TendImages) {
	if order.Stop {
		a.tends.end(order.Token)
		return
	}
	answer := func(word *pb.ImagesWord) {
		word.Token, word.Error = order.Token, registry.Words(word.Error)
		a.send(&pb.NodeMessage{What: &pb.NodeMessage_ImagesWord{ImagesWord: word}})
	}
	if !a.tends.all.TryAcquire(1) {
		answer(&pb.ImagesWord{Done: true, Busy: true, Error: "the node does too much with container images at this moment: try again"})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tendPatience)
	if !a.tends.begin(order.Token, cancel) {
		cancel()
		a.tends.all.Release(1)
		return
	}
	a.tending.Go(func() {
		defer a.tends.all.Release(1)
		defer a.tends.end(order.Token)
		answer(&pb.ImagesWord{}) // it has come
		tell, silence := progressOf(answer)
		word, err := a.doContainerImages(ctx, order, tell)
		if err != nil {
			word = &pb.ImagesWord{Error: err.Error(), Busy: errors.Is(err, errBusy)}
		}
		silence()
		word.Done = true
		answer(word)
	})
}

// progressOf tells progress, not too often, and again where nothing new comes: whoever waits
// would take the node for dead.
func progressOf(answer func(*pb.ImagesWord)) (tell func(string), silence func()) {
	var mu sync.Mutex
	var last string
	var told time.Time
	say := func(now time.Time) {
		told = now
		answer(&pb.ImagesWord{Progress: registry.Words(last)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var repeating sync.WaitGroup
	repeating.Go(func() {
		every(ctx, progressAgain, func() {
			mu.Lock()
			defer mu.Unlock()
			say(time.Now())
		})
	})
	tell = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if text == "" {
			return
		}
		last = text
		if now := time.Now(); now.Sub(told) >= progressEvery {
			say(now)
		}
	}
	return tell, func() { cancel(); repeating.Wait() }
}

// errBusy is returned for an order that would be one too many at the same time.
var errBusy = errors.New("the node pulls or examines other container images at this moment: try again in some minutes")

func (a *agent) doContainerImages(ctx context.Context, order *pb.TendImages, tell func(string)) (*pb.ImagesWord, error) {
	if order.Verb == pb.ImagesVerb_IMAGES_VERB_PULL || order.Verb == pb.ImagesVerb_IMAGES_VERB_VERIFY {
		if !a.tends.heavy.TryAcquire(1) {
			return nil, errBusy
		}
		defer a.tends.heavy.Release(1)
	}
	config := &a.machine.config
	settings := &bundle.Settings{
		StateDir: config.StateDir, Node: config.Name, CgroupParent: config.CgroupParent,
		Roots: bundle.Roots{Dir: config.Roots.Dir, Program: config.Roots.Program, LimitBytes: config.Roots.limit()},
	}
	cache := prepare.Roots(settings)
	cache.Log = a.log
	switch order.Verb {
	case pb.ImagesVerb_IMAGES_VERB_LIST:
		return a.listContainerImages(cache, order)
	case pb.ImagesVerb_IMAGES_VERB_PULL:
		return a.pullContainerImage(ctx, cache, settings, order, tell)
	case pb.ImagesVerb_IMAGES_VERB_VERIFY:
		return a.eachContainerImage(cache, order, func(h *roots.Holding, shown *pb.CachedImage) error {
			tell("reading " + firstName(shown))
			return a.verifyContainerImage(ctx, cache, h)
		})
	case pb.ImagesVerb_IMAGES_VERB_REMOVE:
		return a.eachContainerImage(cache, order, func(h *roots.Holding, shown *pb.CachedImage) error {
			return a.removeContainerImage(cache, h, shown)
		})
	}
	return nil, errors.New("the node does not know what it should do: its gnoded is older than the controllers")
}

func (a *agent) listContainerImages(cache *roots.Cache, order *pb.TendImages) (*pb.ImagesWord, error) {
	all, err := cache.List()
	if err != nil {
		return nil, err
	}
	used, err := cache.Used()
	if err != nil {
		return nil, err
	}
	word := &pb.ImagesWord{LimitBytes: uint64(max(cache.Limit, 0)), UsedBytes: uint64(used)}
	for i := range all {
		if shown := a.shownImage(&all[i], order); shown != nil {
			word.Images = append(word.Images, shown)
		} else {
			word.Others++
		}
	}
	return word, nil
}

// pullContainerImage does what a job of the user would do before it starts.
func (a *agent) pullContainerImage(ctx context.Context, cache *roots.Cache, s *bundle.Settings, order *pb.TendImages, tell func(string)) (*pb.ImagesWord, error) {
	root, err := prepare.Ahead(ctx, s, &pb.StartAlloc{
		Node: s.Node, Owner: order.User, Spec: &pb.JobSpec{Image: order.Image, Environment: order.Environment},
		ImageRules: order.Rules, OwnerImageRules: order.OwnerRules,
	}, a.log, tell)
	if ctx.Err() != nil {
		return nil, errors.New("nobody waited for it any more, or it took too long: what came of it is kept")
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if order.Keep {
		if err := cache.Lease(root); err != nil {
			return nil, err
		}
	}
	h, err := cache.Find(root.Digest)
	if err != nil {
		return nil, err
	}
	a.log.Info("a container image was pulled ahead", "image", order.Image, "uid", order.User.GetUid())
	return &pb.ImagesWord{Images: []*pb.CachedImage{a.shownImage(h, order)}}, nil
}

// eachContainerImage does something with each image that an order means, and answers what
// came of it.
func (a *agent) eachContainerImage(cache *roots.Cache, order *pb.TendImages, do func(*roots.Holding, *pb.CachedImage) error) (*pb.ImagesWord, error) {
	all, err := cache.List()
	if err != nil {
		return nil, err
	}
	word := &pb.ImagesWord{}
	for i := range all {
		shown := a.shownImage(&all[i], order)
		if shown == nil || !isMeant(&all[i], shown, order.Image) {
			continue
		}
		if err := do(&all[i], shown); err != nil {
			shown.Problem = registry.Words(err.Error())
		}
		word.Images = append(word.Images, shown)
	}
	return word, nil
}

func (a *agent) verifyContainerImage(ctx context.Context, cache *roots.Cache, h *roots.Holding) error {
	err := cache.Verify(ctx, h.Digest)
	if errors.Is(err, roots.ErrDamaged) {
		return fmt.Errorf("%w: remove it with gimage rm, and see whether the disk is sound", err)
	}
	return err
}

func (a *agent) removeContainerImage(cache *roots.Cache, h *roots.Holding, shown *pb.CachedImage) error {
	if len(shown.Jobs) > 0 {
		return fmt.Errorf("%w by %s: wait for the end, or gcancel", roots.ErrInUse, jobsText(shown.Jobs))
	}
	freed, err := cache.Remove(h.Digest)
	if errors.Is(err, roots.ErrInUse) {
		return fmt.Errorf("%w: a job begins or ends with it, or it comes: try again", err)
	}
	if err != nil {
		return err
	}
	shown.FreedBytes = uint64(freed)
	a.log.Info("a container image was removed from the cache", "image", firstName(shown), "freed_bytes", freed)
	return nil
}

// maxJobsNamed bounds how many jobs a sentence names.
const maxJobsNamed = 8

func jobsText(jobs []uint32) string {
	var names []string
	for _, id := range jobs[:min(len(jobs), maxJobsNamed)] {
		names = append(names, fmt.Sprint(id))
	}
	text := "job " + names[0]
	if len(names) > 1 {
		text = "jobs " + strings.Join(names, ", ")
	}
	if more := len(jobs) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shownImage is an image as an order's user may see it; nil = not at all.
func (a *agent) shownImage(h *roots.Holding, order *pb.TendImages) *pb.CachedImage {
	shown := &pb.CachedImage{Digest: h.Digest, Bytes: uint64(h.Bytes), Layers: uint32(h.Layers), LayersThere: uint32(h.There)}
	if !h.Used.IsZero() {
		shown.UsedMs = h.Used.UnixMilli()
	}
	for uid, name := range h.Names {
		if order.All || uid == order.User.GetUid() {
			shown.Names = append(shown.Names, name)
		}
	}
	if len(shown.Names) == 0 {
		return nil
	}
	slices.Sort(shown.Names)
	shown.Names = slices.Compact(shown.Names)
	const mostNames = 16
	shown.Names = shown.Names[:min(len(shown.Names), mostNames)]
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, known := range a.registry.All() {
		image, err := ref.ParsePinned(known.Order.GetSpec().GetImage())
		if err != nil || image.Digest != h.Digest || known.Life.Over() {
			continue
		}
		if order.All || known.Order.GetOwner().GetUid() == order.User.GetUid() {
			shown.Jobs = append(shown.Jobs, known.Order.GetAlloc().GetJob())
		}
	}
	slices.Sort(shown.Jobs)
	return shown
}

// isMeant reports whether a digest, or a name with or without its tag, is that of an image;
// "" = all are meant.
func isMeant(h *roots.Holding, shown *pb.CachedImage, text string) bool {
	if text == "" || text == h.Digest {
		return true
	}
	return slices.ContainsFunc(shown.Names, func(name string) bool {
		is, err := ref.ParsePinned(name)
		if err != nil {
			return false
		}
		want, err := ref.Parse(text, "/")
		if err != nil || want.Digest != "" && want.Digest != h.Digest {
			return false
		}
		place, _, _ := strings.Cut(text, "@")
		tagged := strings.HasSuffix(place, ":"+want.Tag)
		return want.Kind == is.Kind && want.Name == is.Name && (!tagged || want.Tag == is.Tag)
	})
}

func firstName(shown *pb.CachedImage) string { return shown.Names[0] }
