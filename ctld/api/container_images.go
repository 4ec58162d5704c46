package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// maxTended bounds the nodes that one request asks at once.
	maxTended = 64
	// firstWordLimit is how long a node may take until it says that it has begun: an older
	// gnoded never does.
	firstWordLimit = 20 * time.Second
)

// ContainerImages has nodes show, pull, examine or remove container images in their caches.
func (s *Controller) ContainerImages(request *pb.ContainerImagesRequest, stream pb.Controller_ContainerImagesServer) error {
	ctx := stream.Context()
	from, err := s.mustBeUser(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		return err
	}
	t, err := s.tendingOf(from, request)
	if err != nil {
		return err
	}
	if request.GetVerb() != pb.ImagesVerb_IMAGES_VERB_LIST {
		noteNode(ctx, clipped(spec.FormatHostList(t.nodes)))
		noteTarget(ctx, fmt.Sprintf("%s container image %s", imagesWord(request.GetVerb()), request.GetImage()))
	}
	if err := t.mayRemove(); err != nil {
		return err
	}
	if request.GetVerb() != pb.ImagesVerb_IMAGES_VERB_LIST {
		if err := s.auditNow(ctx, pb.Controller_ContainerImages_FullMethodName); err != nil {
			return err
		}
	}
	return t.all(ctx, stream.Send)
}

func imagesWord(verb pb.ImagesVerb) string {
	return strings.ToLower(strings.TrimPrefix(verb.String(), "IMAGES_VERB_"))
}

// tending is one such request.
type tending struct {
	*Controller
	view    *state.View
	may     *sight
	request *pb.ContainerImagesRequest
	user    *pb.Identity
	nodes   []string
	homes   map[string]string // PULL: a partition by node, through which the user reaches it
	mu      sync.Mutex        // held while something is sent
}

// tendingOf refuses what is no request, or names what is not there.
func (s *Controller) tendingOf(from *caller, request *pb.ContainerImagesRequest) (*tending, error) {
	view := s.cluster.View()
	t := &tending{Controller: s, view: view, may: s.sightOf(from, view), request: request, homes: map[string]string{}}
	var err error
	if t.user, err = s.ownerFor(from, ""); err != nil {
		return nil, err
	}
	switch verb := request.GetVerb(); verb {
	case pb.ImagesVerb_IMAGES_VERB_LIST, pb.ImagesVerb_IMAGES_VERB_VERIFY:
	case pb.ImagesVerb_IMAGES_VERB_REMOVE:
		if request.GetImage() == "" {
			return nil, invalid("no image is named: gimage list shows those that are there")
		}
	case pb.ImagesVerb_IMAGES_VERB_PULL:
		if _, err := ref.ParsePinned(request.GetImage()); err != nil {
			return nil, invalid("%.256q: %v", request.GetImage(), err)
		}
	default:
		return nil, invalid("what is to be done with container images is not known to this controller")
	}
	if len(request.GetImage()) > ref.MaxBytes {
		return nil, invalid("the name of the image is longer than %d bytes", ref.MaxBytes)
	}
	if err := checkTendEnvironment(request.GetEnvironment()); err != nil {
		return nil, err
	}
	return t, t.findNodes()
}

// checkTendEnvironment refuses variables that say something else than where credentials are,
// and long ones: each node that is asked gets them.
func checkTendEnvironment(variables []string) error {
	if len(variables) > len(spec.RegistryVariables) {
		return invalid("more variables than say where credentials are")
	}
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains(spec.RegistryVariables, name) || len(variable) > spec.MaxPathBytes {
			return invalid("variable %.64q does not say where credentials are, or is longer than %d bytes", name, spec.MaxPathBytes)
		}
	}
	return nil
}

// findNodes finds the nodes that are meant.
func (t *tending) findNodes() error {
	if t.may.hides("nodes") {
		return status.Error(codes.PermissionDenied, "Access/permission denied: private_data hides nodes from you")
	}
	partitions := t.request.GetPartitions()
	for _, name := range partitions {
		if _, known := t.view.Policy().Partition(name); !known {
			return invalid("invalid partition specified: %.64s", name)
		}
	}
	pull := t.request.GetVerb() == pb.ImagesVerb_IMAGES_VERB_PULL
	if pull && t.request.GetNodes() == "" && len(partitions) == 0 {
		for _, p := range t.view.Policy().Partitions {
			if p.Default {
				partitions = []string{p.Name}
			}
		}
		if len(partitions) == 0 {
			return invalid("no partition is the default one: name nodes with --nodes, or a partition with --partition")
		}
	}
	matches, err := nodeFilter(t.view, &pb.ListNodesRequest{Names: t.request.GetNodes(), Partitions: partitions})
	if err != nil {
		return err
	}
	for node := range t.view.Nodes() {
		if matches(node) {
			t.nodes = append(t.nodes, node.Name)
		}
	}
	if list, err := spec.ParseHostList(t.request.GetNodes()); err == nil && len(partitions) == 0 {
		for _, name := range list {
			if !slices.Contains(t.nodes, name) {
				return invalid("Invalid node name specified: there is no node %.64s; there are %s", name, knownNodes(t.view))
			}
		}
	}
	if len(t.nodes) == 0 {
		return status.Error(codes.NotFound, "there is no such node")
	}
	if pull {
		return t.reach()
	}
	return nil
}

// reach refuses nodes that are in no partition that the user may use.
func (t *tending) reach() error {
	policy := t.view.Policy()
	var last error
	for i := range policy.Partitions {
		p := &policy.Partitions[i]
		if err := checkGroups(policy, []string{p.Name}, t.user); err != nil {
			last = err
			continue
		}
		for _, node := range t.nodes {
			if p.Has(node) {
				t.homes[node] = p.Name
			}
		}
	}
	for _, node := range t.nodes {
		switch {
		case t.homes[node] != "" || t.may.all:
		case last != nil:
			return last
		default:
			return invalid("node %s is in no partition: no job of yours could run there", node)
		}
	}
	return nil
}

// ofAll reports whether the caller has an owner's rights on a node.
func (t *tending) ofAll(node string) bool {
	return t.view.MayReclaim(t.may.coordinator, t.may.all, node)
}

// mayRemove refuses whoever has no rights over the nodes' caches.
func (t *tending) mayRemove() error {
	if t.request.GetVerb() != pb.ImagesVerb_IMAGES_VERB_REMOVE {
		return nil
	}
	for _, node := range t.nodes {
		if !t.ofAll(node) {
			return status.Errorf(codes.PermissionDenied, "Access/permission denied: images on node %s are removed by operators, administrators and coordinators of the account that owns it: what no job uses makes room by itself", node)
		}
	}
	return nil
}

// all asks all nodes, and passes on what they say.
func (t *tending) all(ctx context.Context, send func(*pb.ContainerImagesResponse) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxTended)
	for _, node := range t.nodes {
		group.Go(func() error {
			say := func(word *pb.ImagesWord) error {
				t.mu.Lock()
				defer t.mu.Unlock()
				word.Token = ""
				return send(&pb.ContainerImagesResponse{Node: node, Word: word})
			}
			return t.one(ctx, node, say)
		})
	}
	return group.Wait()
}

// one asks one node. An error is the client's; what goes wrong with the node is said.
func (t *tending) one(ctx context.Context, node string, say func(*pb.ImagesWord) error) error {
	order := &pb.TendImages{Verb: t.request.GetVerb(), Image: t.request.GetImage(), User: t.user, All: t.ofAll(node), Environment: t.request.GetEnvironment()}
	if order.Verb == pb.ImagesVerb_IMAGES_VERB_PULL {
		rules, why := t.view.MayPull(t.user, order.Image, t.homes[node], node)
		if why != "" {
			return say(&pb.ImagesWord{Done: true, Error: why})
		}
		order.Rules, order.OwnerRules = t.view.ImageRules(), rules
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	silent := time.AfterFunc(firstWordLimit, stop)
	defer silent.Stop()
	var said error
	err := t.loops.Sessions().Tend(asking, node, order, func(word *pb.ImagesWord) error {
		silent.Stop()
		said = say(word)
		return said
	})
	switch {
	case said != nil:
		return said
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case asking.Err() != nil:
		return say(&pb.ImagesWord{Done: true, Error: "the node does not answer: its gnoded is older than the controllers, or hangs"})
	case err != nil:
		return say(&pb.ImagesWord{Done: true, Error: err.Error()})
	}
	return nil
}
