package noded

import (
	"context"
	"log/slog"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// findEngine looks for a CRIU that works, notes what the node says of that, and
// answers what supervisors are told.
func (m *machine) findEngine(ctx context.Context, log *slog.Logger) shim.Checkpoint {
	c := &m.config.Checkpoint
	told := shim.Checkpoint{Stores: m.config.stores(), TimeoutS: c.TimeoutS}
	m.saving = &pb.Saving{Kernel: strings.TrimPrefix(kernel(), "Linux ")}
	for _, shared := range c.Shared {
		m.saving.Stores = append(m.saving.Stores, shared.Name)
	}
	engine, rejected := checkpoint.Find(ctx, checkpoint.Programs(c.CRIU))
	var here checkpoint.Machine
	var err error
	if engine != nil {
		here, err = checkpoint.ThisMachine(ctx, engine)
	}
	if engine == nil || err != nil {
		told.WhyNot = whyNoEngine(rejected, err)
		m.saving.WhyNot = words(told.WhyNot)
		log.Info("jobs cannot be saved on this node", "reason", told.WhyNot)
		return told
	}
	log.Info("jobs can be saved on this node", "criu", engine.Path, "version", engine.Version)
	m.engine, told.Engine = engine, engine
	m.saving.Criu, m.saving.Kernel, m.saving.Processor = words(engine.Version), words(here.Kernel), words(here.Processor)
	return told
}

// fits answers why this node could not go on with an image.
func (m *machine) fits(ctx context.Context, image *checkpoint.Manifest) ([]checkpoint.Misfit, error) {
	here, err := checkpoint.ThisMachine(ctx, m.engine)
	if err != nil {
		return nil, err
	}
	var found []checkpoint.Misfit
	if here.GPUs, found, err = m.gpusFor(image.Machine.GPUs); err != nil {
		return nil, err
	}
	return append(found, image.Fits(here, container.Look)...), nil
}

func whyNoEngine(rejected []checkpoint.Rejected, err error) string {
	const remedy = ": install CRIU 4 or newer, or name one in the configuration of gnoded under [checkpoint]; gdoctor says more"
	if err != nil {
		return "what images depend on cannot be told: " + err.Error()
	}
	if len(rejected) == 0 {
		return "this node has no CRIU" + remedy
	}
	var reasons []string
	for _, r := range rejected {
		reasons = append(reasons, r.Path+": "+r.Reason)
	}
	return "no CRIU of this node works (" + strings.Join(reasons, "; ") + ")" + remedy
}
