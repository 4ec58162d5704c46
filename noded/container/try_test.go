package container

import (
	"os"
	"testing"
)

// A trial tells a file system that can be idmapped from one that cannot.
func TestTryIdmap(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes a user namespace and copies of mounts")
	}
	s, err := newStage(&Spec{User: User{UID: 65534, GID: 65534}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.tryIdmap("/"); err != nil {
		t.Errorf("the root, on which jobs run: %v", err)
	}
	for _, path := range []string{"/proc", "/nothing/there"} {
		if err := s.tryIdmap(path); err == nil {
			t.Errorf("%s can be idmapped", path)
		}
	}
}
