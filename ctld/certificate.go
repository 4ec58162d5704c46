package ctld

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
)

// certificateProblem is what somebody has to do about the certificate of this
// controller; "" while there is time.
func certificateProblem(certificates *pki.Authority, name string, now time.Time) string {
	if certificates == nil {
		return ""
	}
	ends, soon := certificates.Expires(now)
	if !soon {
		return ""
	}
	if left := ends.Sub(now); left > 0 {
		return fmt.Sprintf("its certificate ends in %d days, on %s: %s", int(left.Hours()/24), ends.Format(time.DateOnly), certificates.Renewal(name))
	}
	return fmt.Sprintf("its certificate ended on %s: %s", ends.Format(time.DateOnly), certificates.Renewal(name))
}

// watchCertificate warns of it at the start and every day after, until ctx
// ends: a controller runs longer than a certificate may be good.
func watchCertificate(ctx context.Context, log *slog.Logger, certificates *pki.Authority, name string) {
	day := time.NewTicker(24 * time.Hour)
	defer day.Stop()
	for {
		if problem := certificateProblem(certificates, name, time.Now()); problem != "" {
			log.Warn("the certificate of this controller must be renewed, or it loses the others", "peer", name, "remedy", problem)
		}
		select {
		case <-ctx.Done():
			return
		case <-day.C:
		}
	}
}
