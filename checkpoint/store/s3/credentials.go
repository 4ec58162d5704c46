package s3

import (
	"errors"
	"fmt"
	"os"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sys/unix"
)

// provider reads credentials from a file that nobody else can read, or from the environment.
type provider struct {
	credentials.Provider
	path string // "" = the environment
}

func newProvider(path string) *provider {
	if path == "" {
		return &provider{Provider: &credentials.EnvAWS{}}
	}
	return &provider{Provider: &credentials.FileAWSCredentials{Filename: path, Profile: "default"}, path: path}
}

// credentialsError is the error of credentials that could not be read.
type credentialsError struct{ error }

func (e *credentialsError) Unwrap() error { return e.error }

// RetrieveWithCredContext implements credentials.Provider.
func (p *provider) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	if err := p.check(); err != nil {
		return credentials.Value{}, &credentialsError{err}
	}
	value, err := p.Provider.RetrieveWithCredContext(c)
	incomplete := value.AccessKeyID == "" || value.SecretAccessKey == ""
	switch {
	case err == nil && !incomplete:
		return value, nil
	case p.path != "":
		if err == nil {
			err = errors.New("something is missing")
		}
		return value, &credentialsError{fmt.Errorf("%s: %w: it has a line [default], and below it aws_access_key_id = … and aws_secret_access_key = …", p.path, err)}
	}
	return value, &credentialsError{errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not in gnoded's environment: set them, or name a file with credentials = \"/PATH\"")}
}

// Retrieve implements credentials.Provider.
func (p *provider) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

func (p *provider) check() error {
	if p.path == "" {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(p.path, &st); err != nil {
		return &os.PathError{Op: "read", Path: p.path, Err: err}
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 {
		return fmt.Errorf("others could read or change %s: chown %d %s; chmod 600 %s", p.path, os.Geteuid(), p.path, p.path)
	}
	return nil
}
