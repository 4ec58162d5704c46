package checkpoint

import (
	"path/filepath"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
)

// A periodic timer expires once while the tree is frozen, and the kernel arms it again
// only when the process has noticed that. Until then the kernel says that no time is
// left. CRIU saves that, and setting a timer to no time turns it off. So such timers
// get their whole interval.

// rearmTimers gives the timers of an image that have just expired their interval.
func rearmTimers(images string) error {
	err := changeEntries(filepath.Join(images, filesImage), func(file *fdinfo.FileEntry) bool {
		timer := file.GetTfd()
		// A timer that was turned off did not expire.
		if timer.GetTicks() == 0 || timer.GetVsec() != 0 || timer.GetVnsec() != 0 || timer.GetIsec() == 0 && timer.GetInsec() == 0 {
			return false
		}
		timer.Vsec, timer.Vnsec = timer.Isec, timer.Insec
		return true
	})
	if err != nil {
		return err
	}
	cores, err := filepath.Glob(filepath.Join(images, "core-*.img"))
	if err != nil {
		return err
	}
	for _, path := range cores {
		err := changeEntries(path, func(core *criu_core.CoreEntry) bool {
			timer := core.GetTc().GetTimers().GetReal()
			if timer.GetVsec() != 0 || timer.GetVusec() != 0 || timer.GetIsec() == 0 && timer.GetIusec() == 0 {
				return false
			}
			timer.Vsec, timer.Vusec = timer.Isec, timer.Iusec
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
