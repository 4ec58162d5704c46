package cdi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// spec is what NVIDIA's toolkit writes, shortened: of a machine with two GPUs.
const spec = `cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, create-symlinks, --link, "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so", --link, "../away::/dev/away"]
  - hookName: createContainer
    path: /usr/bin/nvidia-ctk
    args: [nvidia-ctk, hook, update-ldcache, --folder=/usr/lib/x86_64-linux-gnu]
  - hookName: createContainer
    path: /usr/bin/nvidia-ctk
    args: [nvidia-ctk, hook, chmod, --mode, "755", --path, /dev/dri]
  mounts:
  - {hostPath: DIR/libcuda.so.9.8.7, containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.9.8.7, options: [ro, rbind]}
  - {hostPath: DIR/nvidia-smi, containerPath: /usr/bin/nvidia-smi, options: [ro, rbind]}
  - {hostPath: DIR/nvidia-smi, containerPath: /run/nvidia-persistenced/socket, options: [ro, rbind]}
  - {hostPath: DIR/missing, containerPath: /usr/bin/missing, options: [ro, rbind]}
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}]
    mounts: [{hostPath: DIR/nvidia-smi, containerPath: /opt/first}]
- name: "1"
  containerEdits:
    deviceNodes: [{path: /dev/nvidia1}]
    mounts: [{hostPath: DIR/nvidia-smi, containerPath: /opt/second}]
- name: all
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]
    mounts: [{hostPath: DIR/nvidia-smi, containerPath: /opt/all}]
`

// driver makes the files of a driver. Its library has the name that a linker gives it.
func driver(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib64")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"libcuda.so.9.8.7": "libcuda.so.1", "libnvidia-ml.so.9.8.7": "libnvidia-ml.so.1"} {
		out, err := exec.Command("cc", "-shared", "-nostdlib", "-Wl,-soname,"+name, "-x", "c", os.DevNull, "-o", filepath.Join(lib, path)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for path, text := range map[string]string{"lib64/libnvidia-broken.so.9.8.7": "no library", "lib64/libnvidia-ml.so.1.2.3": "of another version", "lib64/libm.so.6": "", "bin/nvidia-smi": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// said is what an answer holds, in a line each.
func said(d *Driver, dir string) string {
	var out strings.Builder
	for _, f := range d.Files {
		fmt.Fprintf(&out, "%s at %s\n", strings.TrimPrefix(f.Outside, dir), f.Inside)
	}
	for _, l := range d.Links {
		fmt.Fprintf(&out, "%s -> %s\n", l.Path, l.Target)
	}
	fmt.Fprintf(&out, "libraries %v programs %v environment %v", d.Libraries, d.Programs, d.Environment)
	return out.String()
}

func writeSpec(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: a specification is root's")
	}
}

// TestSpecs: of a specification come the mounts of the driver and of the job's own GPUs,
// and what NVIDIA's hooks would make; no device, no service of the node's.
func TestSpecs(t *testing.T) {
	needsRoot(t)
	dir := driver(t)
	if err := os.Rename(filepath.Join(dir, "lib64", "libcuda.so.9.8.7"), filepath.Join(dir, "libcuda.so.9.8.7")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "bin", "nvidia-smi"), filepath.Join(dir, "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	specs := writeSpec(t, "nvidia.yaml", strings.ReplaceAll(spec, "DIR/", dir+"/"))
	other := writeSpec(t, "other.json", `{"cdiVersion": "0.5.0", "kind": "example.com/net", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}`)
	got, err := FromSpecs([]string{specs, other, "/nowhere"}, []string{"/dev/nvidia1", "/dev/nvidia-uvm"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `/nvidia-smi at /opt/second
/nvidia-smi at /usr/bin/nvidia-smi
/libcuda.so.9.8.7 at /usr/lib/x86_64-linux-gnu/libcuda.so.9.8.7
/usr/lib/x86_64-linux-gnu/libcuda.so -> libcuda.so.1
/usr/lib/x86_64-linux-gnu/libcuda.so.1 -> libcuda.so.9.8.7
libraries [/usr/lib/x86_64-linux-gnu] programs [] environment [NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu]`
	if said(got, dir) != want {
		t.Errorf("got\n%s\nwant\n%s", said(got, dir), want)
	}
	if _, err := FromSpecs([]string{other, "/nowhere"}, nil); !errors.Is(err, ErrNoSpec) {
		t.Errorf("without a specification: %v", err)
	}
}

// TestSpecsOfOthers: what somebody else than root can write says nothing to root.
func TestSpecsOfOthers(t *testing.T) {
	needsRoot(t)
	for name, spoil := range map[string]func(dir string) error{
		"a file for everybody":      func(dir string) error { return os.Chmod(filepath.Join(dir, "nvidia.yaml"), 0o666) },
		"a directory for everybody": func(dir string) error { return os.Chmod(dir, 0o777) },
		"somebody's file":           func(dir string) error { return os.Chown(filepath.Join(dir, "nvidia.yaml"), 1000, 0) },
		"somebody's directory":      func(dir string) error { return os.Chown(dir, 1000, 0) },
		"far too long":              func(dir string) error { return os.Truncate(filepath.Join(dir, "nvidia.yaml"), mostSpecBytes+1) },
		"no YAML":                   func(dir string) error { return os.WriteFile(filepath.Join(dir, "nvidia.yaml"), []byte("{"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeSpec(t, "nvidia.yaml", spec)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if got, err := FromSpecs([]string{dir}, []string{"/dev/nvidia0"}); err == nil || errors.Is(err, ErrNoSpec) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestBeside: without a specification, an image gets what has the driver's version and lies
// beside its management library, and the tools.
func TestBeside(t *testing.T) {
	dir := driver(t)
	maps := filepath.Join(dir, "maps")
	if err := os.WriteFile(maps, []byte("7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/libc.so.6\n7f02-7f03 r-xp 00000000 fe:00 2 "+dir+"/lib64/libnvidia-ml.so.9.8.7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	library, err := LoadedLibrary(maps)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Beside(library, []string{"/usr/bin"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `/bin/nvidia-smi at /usr/local/nvidia/bin/nvidia-smi
/lib64/libcuda.so.9.8.7 at /usr/local/nvidia/lib64/libcuda.so.9.8.7
/lib64/libnvidia-broken.so.9.8.7 at /usr/local/nvidia/lib64/libnvidia-broken.so.9.8.7
/lib64/libnvidia-ml.so.9.8.7 at /usr/local/nvidia/lib64/libnvidia-ml.so.9.8.7
/usr/local/nvidia/lib64/libcuda.so -> libcuda.so.1
/usr/local/nvidia/lib64/libcuda.so.1 -> libcuda.so.9.8.7
/usr/local/nvidia/lib64/libnvidia-ml.so.1 -> libnvidia-ml.so.9.8.7
libraries [/usr/local/nvidia/lib64] programs [/usr/local/nvidia/bin] environment []`
	if said(got, dir) != want {
		t.Errorf("got\n%s\nwant\n%s", said(got, dir), want)
	}
	if _, err := LoadedLibrary(os.DevNull); err == nil {
		t.Error("a library that is not loaded was found")
	}
	if _, err := Beside("/usr/lib/libnvidia-ml.so.1", nil); err == nil {
		t.Error("a library without a version")
	}
}
