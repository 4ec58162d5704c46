package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// setAside renames a damaged database, so that a new one is begun: what it had comes
// from another controller, and the old file stays for whoever wants to read it.
func (k *Keeper) setAside() {
	k.close()
	aside := k.options.Path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(k.options.Path+end, aside+end); err != nil && !os.IsNotExist(err) {
			k.log.Error("the damaged history database cannot be renamed: move it away", "path", k.options.Path+end, "error", err)
			return
		}
	}
	k.through.Store(0)
	k.log.Error("the history database was damaged, and a new one is begun: other controllers have what it had; the damaged one is kept", "path", aside)
}

// noteTorn remembers that a reader has met damage: writers may never come to that page.
func (k *Keeper) noteTorn(err error) error {
	if errors.Is(err, ErrDamaged) {
		k.torn.Store(true)
	}
	return err
}

// seeTorn gives up a database that readers found damaged, if another controller has what
// it had. A controller that is alone keeps what can still be read.
func (k *Keeper) seeTorn(ctx context.Context) error {
	if k.options.URL != "" || !k.torn.Load() {
		return nil
	}
	if _, through, _ := k.others.CopyHistory(ctx, 0); through == 0 {
		return nil
	}
	k.torn.Store(false)
	return fmt.Errorf("%w: a reader has found that", ErrDamaged)
}
