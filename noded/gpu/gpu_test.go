package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestModelWord(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB":                        "a100",
		"NVIDIA A100-PCIE-40GB":                        "a100",
		"NVIDIA A100 80GB PCIe":                        "a100",
		"A100-SXM4-80GB":                               "a100",
		"NVIDIA A800-SXM4-80GB":                        "a800",
		"NVIDIA A30":                                   "a30",
		"NVIDIA H100 80GB HBM3":                        "h100",
		"NVIDIA H100 PCIe":                             "h100",
		"NVIDIA H100 NVL":                              "h100",
		"NVIDIA H200":                                  "h200",
		"NVIDIA H200 NVL":                              "h200",
		"NVIDIA GH200 480GB":                           "gh200",
		"NVIDIA GH200 144G HBM3e":                      "gh200",
		"NVIDIA B200":                                  "b200",
		"NVIDIA GB200":                                 "gb200",
		"NVIDIA L4":                                    "l4",
		"NVIDIA L40S":                                  "l40s",
		"Tesla V100-SXM2-16GB":                         "v100",
		"Tesla P100-PCIE-16GB":                         "p100",
		"Tesla T4":                                     "t4",
		"Tesla K80":                                    "k80",
		"NVIDIA GeForce RTX 4090":                      "rtx4090",
		"GeForce RTX 3090 Ti":                          "rtx3090ti",
		"NVIDIA GeForce RTX 4080 SUPER":                "rtx4080super",
		"NVIDIA GeForce RTX 3070 Laptop GPU":           "rtx3070laptop",
		"GeForce GTX 1080 Ti":                          "gtx1080ti",
		"NVIDIA GeForce GTX 1650 with Max-Q Design":    "gtx1650",
		"NVIDIA RTX A6000":                             "rtxa6000",
		"NVIDIA RTX 6000 Ada Generation":               "rtx6000ada",
		"Quadro RTX 6000":                              "rtx6000",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000blackwell",
		"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtxpro6000blackwell",
		"NVIDIA TITAN RTX":       "titanrtx",
		"NVIDIA TITAN V":         "titanv",
		"NVIDIA Graphics Device": "gpu",
		"":                       "gpu",
		"  ":                     "gpu",
		"80GB":                   "80gb",
		"Ünïcode X1":             "ncodex1",
	} {
		if got := ModelWord(product); got != want {
			t.Errorf("ModelWord(%q) = %q, want %q", product, got, want)
		}
	}
}

// FuzzModelWord: whatever a driver calls its GPU, users get a word they can
// type after gpu: and before the next colon.
func FuzzModelWord(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-40GB")
	f.Add("-:,\x00")
	f.Fuzz(func(t *testing.T, product string) {
		word := ModelWord(product)
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Errorf("ModelWord(%q) = %q", product, word)
		}
	})
}

func TestConfigured(t *testing.T) {
	directory := t.TempDir()
	plain := filepath.Join(directory, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(directory, "missing")
	// Every Linux has this character device, and its number is fixed.
	source := FromConfiguration([]Configured{
		{ID: "a", Model: "standin", Path: "/dev/null", MemoryBytes: 80 << 30, Links: []string{"b"}},
		{ID: "b", Model: "standin", Path: missing, ContainerPath: "/dev/gpu1"},
		{ID: "c", Model: "standin", Path: plain},
	})
	defer source.Close()
	devices, err := source.Devices()
	if err != nil {
		t.Fatal(err)
	}
	const product = "standin (named in the node's configuration)"
	want := []Device{
		{
			ID: "a", Index: 0, Model: "standin", Product: product, MemoryBytes: 80 << 30, Links: []string{"b"},
			File: File{Path: "/dev/null", ContainerPath: "/dev/null", Major: 1, Minor: 3},
		}, {
			ID: "b", Index: 1, Model: "standin", Product: product,
			Health: Failed, HealthDetail: "its device file " + missing + " does not exist",
			File: File{Path: missing, ContainerPath: "/dev/gpu1"},
		}, {
			ID: "c", Index: 2, Model: "standin", Product: product,
			Health: Failed, HealthDetail: plain + ": not a character device",
			File: File{Path: plain, ContainerPath: "/dev/plain"},
		},
	}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Error(diff)
	}
	if files, missing := source.Companions(); len(files)+len(missing) != 0 {
		t.Errorf("stand-ins have companions %v, %v", files, missing)
	}
}

// TestDeviceComesBack: health is looked up again at each call.
func TestDeviceComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpu0")
	source := FromConfiguration([]Configured{{ID: "a", Path: path}})
	health := func() Health {
		devices, err := source.Devices()
		if err != nil || len(devices) != 1 {
			t.Fatal(devices, err)
		}
		return devices[0].Health
	}
	if got := health(); got != Failed {
		t.Errorf("without its file: %v", got)
	}
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	if got := health(); got != OK {
		t.Errorf("with its file: %v", got)
	}
}

func TestCompanions(t *testing.T) {
	directory := t.TempDir()
	makeNode(t, filepath.Join(directory, "nvidiactl"), 195, 255)
	makeNode(t, filepath.Join(directory, "nvidia-uvm"), 511, 0)
	files, missing := findCompanions(directory)
	want := []File{
		{Path: directory + "/nvidiactl", ContainerPath: directory + "/nvidiactl", Companion: true, Major: 195, Minor: 255},
		{Path: directory + "/nvidia-uvm", ContainerPath: directory + "/nvidia-uvm", Companion: true, Major: 511, Minor: 0},
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{directory + "/nvidia-uvm-tools"}, missing); diff != "" {
		t.Error(diff)
	}
}

func makeNode(t *testing.T, path string, major, minor uint32) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes device files")
	}
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Fatal(fmt.Errorf("mknod %s: %w", path, err))
	}
}
