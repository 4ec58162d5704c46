package checkpoint

import (
	"path/filepath"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
)

// A timer that rings again and again rings once while the tree stands, and the
// kernel arms it anew only when the process has taken note of that: until then
// it says that no time is left. CRIU writes that down, and to set a timer so
// turns it off. So such timers are given their whole interval.

// rearmTimers does that in an image.
func rearmTimers(images string) error {
	err := changeEntries(filepath.Join(images, filesImage), func(file *fdinfo.FileEntry) bool {
		timer := file.GetTfd()
		// One that was turned off has rung for nobody.
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
