package noded

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// findEngine looks for a CRIU that works, notes what the node says of that, and
// answers what supervisors are told.
func (m *machine) findEngine(ctx context.Context, log *slog.Logger) bundle.Checkpoint {
	c := &m.config.Checkpoint
	told := bundle.Checkpoint{Stores: m.config.stores(), TimeoutS: c.TimeoutS, MayDial: c.MayDial}
	m.saving = &pb.Saving{Kernel: strings.TrimPrefix(kernel(), "Linux ")}
	for _, shared := range c.Shared {
		m.saving.Stores = append(m.saving.Stores, shared.Name)
	}
	m.saving.Cuda = m.canParkGPUs(log)
	engine, rejected := checkpoint.Find(ctx, checkpoint.Programs(c.CRIU))
	var here checkpoint.Machine
	var err error
	if engine != nil {
		here, err = checkpoint.ThisMachine(ctx, engine)
	}
	if engine == nil || err != nil {
		told.WhyNot = whyNoEngine(rejected, err)
		m.saving.WhyNot = registry.Words(told.WhyNot)
		log.Info("jobs cannot be saved on this node", "reason", told.WhyNot)
		return told
	}
	log.Info("jobs can be saved on this node", "criu", engine.Path, "version", engine.Version)
	m.engine, told.Engine = engine, engine
	m.saving.Criu, m.saving.Kernel, m.saving.Processor = registry.Words(engine.Version), registry.Words(here.Kernel), registry.Words(here.Processor)
	return told
}

// canParkGPUs says whether the driver can take what jobs have on GPUs into host memory.
func (m *machine) canParkGPUs(log *slog.Logger) bool {
	source, ok := m.source.(driverSource)
	if !ok {
		return false
	}
	driver, err := source.Driver()
	if err != nil {
		log.Warn("nobody can say how long it takes to park jobs with GPUs: see whether nvidia-smi works", "error", err)
	}
	return err == nil && cuda.CanPark(driver.Version)
}

// fits answers why this node could not resume an image of a job that has GPUs
// of these models. It looks at the GPUs itself; a process that does
// what the supervisor would do finds out the rest.
func (m *machine) fits(ctx context.Context, image *checkpoint.Manifest, order *pb.AskRestore, try tryFits) (bundle.Misfit, error) {
	found, err := m.gpusMisfit(image.Machine.GPUs)
	if err != nil {
		return bundle.Misfit{}, err
	}
	if len(found) > 0 {
		return bundle.Misfit{Property: found[0].Property, Reason: found[0].String()}, nil
	}
	files, err := m.filesLike(order.DeviceModels)
	if err != nil {
		return bundle.Misfit{}, err
	}
	r := resources{files: files}
	if order.Start.GetSpec().GetImage() != "" && len(files) > 0 {
		if r.driver, err = m.driverFor(files); err != nil {
			return bundle.Misfit{}, err
		}
	}
	return try(ctx, r, order.Start, image)
}

// tryFits is supervisors.Fits.
type tryFits func(context.Context, resources, *pb.StartAlloc, *checkpoint.Manifest) (bundle.Misfit, error)

// filesLike are the device files that a job with GPUs of these models would have, as
// far as this node has them: of which it gets which, the controller decides later.
func (m *machine) filesLike(models []string) (files []gpu.File, err error) {
	if len(models) == 0 {
		return nil, nil
	}
	devices, err := m.devices()
	if err != nil {
		return nil, err
	}
	devices = slices.Clone(devices)
	for _, model := range models {
		if i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.Model == model }); i >= 0 {
			files = append(files, devices[i].File)
			devices = slices.Delete(devices, i, i+1)
		}
	}
	return m.withCompanions(files), nil
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
