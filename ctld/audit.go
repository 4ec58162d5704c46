package ctld

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/audit"
)

// The values of Config.Audit.
const (
	AuditOn       = "on"
	AuditRequired = "required"
	AuditOff      = "off"
)

func (c *Config) checkAudit() error {
	if words := []string{"", AuditOn, AuditRequired, AuditOff}; !slices.Contains(words, c.Audit) {
		return fmt.Errorf("%w: audit = %.80q must be on, required or off", ErrConfig, c.Audit)
	}
	if c.AuditFile != "" && !filepath.IsAbs(c.AuditFile) {
		return fmt.Errorf("%w: audit_file = %.200q must be an absolute path", ErrConfig, c.AuditFile)
	}
	return nil
}

// auditPath is the path of the audit log.
func (c *Config) auditPath() string {
	if c.AuditFile != "" {
		return c.AuditFile
	}
	return filepath.Join(c.DataDir, "audit.log")
}

// openAudit begins the audit log; nil where there is none.
func (c *Config) openAudit(name string, log *slog.Logger) (*audit.Log, error) {
	if c.Audit == AuditOff {
		return nil, nil
	}
	return audit.Open(c.auditPath(), name, log)
}

// auditProblems adds the errors of the audit log to other problems.
func auditProblems(log *audit.Log, others func() []string) func() []string {
	return func() []string {
		problems := others()
		if problem := log.Problem(); problem != "" {
			problems = append(problems, problem)
		}
		return problems
	}
}

// auditCertificate writes down that a user on this host had a certificate
// issued, or why not.
func auditCertificate(config *Config, holder, out string, issued error) error {
	name, _, err := peerName(config)
	if err != nil {
		return err
	}
	audits, err := config.openAudit(name, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil || audits == nil {
		return err
	}
	uid := uint32(os.Getuid())
	entry := &audit.Entry{Stage: "answered", Verb: "cert", UID: &uid, From: "gctld cert", Result: "OK", Targets: []string{holder, out}}
	if issued != nil {
		entry.Result, entry.Error = "Unknown", issued.Error()
	}
	return errors.Join(audits.Write(entry), audits.Close())
}
