package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// eventWaitMS is how long one wait for events lasts, and so the longest that
// Close waits.
const eventWaitMS = 1000

// applicationXids are the Xid messages that a faulty program causes, not a
// faulty GPU. The list is that of NVIDIA's Kubernetes device plugin.
var applicationXids = map[uint64]bool{
	13:  true, // graphics engine exception
	31:  true, // memory page fault
	43:  true, // the program was stopped
	45:  true, // preemptive clean-up after an earlier error
	68:  true, // video processor exception
	109: true, // context switch timeout
}

// fallenOffTheBus is the Xid of a GPU that no longer answers on PCI Express.
const fallenOffTheBus = 79

// watchEvents starts to listen for Xid messages, where the driver offers them.
// Without them the health seen by Devices still tells most failures.
func (n *NVML) watchEvents() {
	set := n.registerEvents()
	if set == nil {
		return
	}
	n.watcher.Go(func() {
		defer set.Free()
		for {
			select {
			case <-n.stop:
				return
			default:
			}
			event, ret := set.Wait(eventWaitMS)
			switch ret {
			case nvml.SUCCESS:
				n.record(event)
			case nvml.ERROR_TIMEOUT:
			default:
				// A lost GPU makes the wait fail at once and for ever; what is
				// lost, Devices finds out by asking.
				return
			}
		}
	})
}

// registerEvents answers nil when the driver reports no failures.
func (n *NVML) registerEvents() nvml.EventSet {
	count, ret := n.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	set, ret := n.library.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nil
	}
	const wanted = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
	registered := 0
	for index := range count {
		handle, ret := n.library.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		supported, ret := handle.GetSupportedEventTypes()
		if ret != nvml.SUCCESS || supported&wanted == 0 {
			continue
		}
		if handle.RegisterEvents(supported&wanted, set) == nvml.SUCCESS {
			registered++
		}
	}
	if registered == 0 {
		set.Free()
		return nil
	}
	return set
}

// record remembers the failure that an event tells of. It stays until the
// daemon starts again: a reset may have mended the GPU, but only an operator
// knows.
func (n *NVML) record(event nvml.EventData) {
	if event.Device == nil {
		return
	}
	id, ret := event.Device.GetUUID()
	if ret != nvml.SUCCESS {
		return
	}
	var detail string
	switch {
	case event.EventType == nvml.EventTypeDoubleBitEccError:
		detail = "an uncorrectable error in its memory"
	case event.EventType != nvml.EventTypeXidCriticalError || applicationXids[event.EventData]:
		return
	case event.EventData == fallenOffTheBus:
		detail = "it has fallen off the bus (Xid 79)"
	default:
		detail = fmt.Sprintf("the driver reported Xid %d", event.EventData)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.fault[id]; !ok {
		n.fault[id] = detail + ": reset or replace it, then restart gnoded"
	}
}
