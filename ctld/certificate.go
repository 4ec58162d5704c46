package ctld

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
)

// certificateProblem is what an administrator has to do about the certificate
// of this controller; "" while there is time.
func certificateProblem(certificates *pki.Authority, name string, now time.Time) string {
	if certificates == nil {
		return ""
	}
	ends, soon := certificates.Expires(now)
	if !soon {
		return authorityProblem(certificates, now)
	}
	if left := ends.Sub(now); left > 0 {
		return fmt.Sprintf("its certificate ends in %d days, on %s: %s", int(left.Hours()/24), ends.Format(time.DateOnly), certificates.Renewal(name))
	}
	return fmt.Sprintf("its certificate ended on %s: %s", ends.Format(time.DateOnly), certificates.Renewal(name))
}

// watchCertificate warns of that at the start and every day after, until ctx
// ends: a controller may run longer than a certificate is good.
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

// authorityProblem says that the authority itself ends; "" while there is time.
func authorityProblem(certificates *pki.Authority, now time.Time) string {
	ends, soon := certificates.Ends(now)
	if !soon {
		return ""
	}
	return fmt.Sprintf("the cluster's certificate authority ends in %d days, on %s, and every certificate with it: choose a day, stop the controllers, remove ca.pem and ca-key.pem from the data directory of the first, start it, and issue all certificates again (gctld cert)",
		int(ends.Sub(now).Hours()/24), ends.Format(time.DateOnly))
}
