package cdi

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where a root without a specification has the driver: images for CUDA have these
// directories in their search paths.
const (
	librariesInside = "/usr/local/nvidia/lib64"
	programsInside  = "/usr/local/nvidia/bin"
)

// tools are the driver's that users call.
var tools = []string{"nvidia-smi", "nvidia-debugdump"}

// managementLibrary begins the name of the library that this process has loaded, whose
// place tells where the driver's libraries are.
const managementLibrary = "libnvidia-ml.so."

// LoadedLibrary is the file of the driver's management library, as the process has it
// loaded whose map of memory lies at maps ("/proc/self/maps").
func LoadedLibrary(maps string) (string, error) {
	file, err := os.Open(maps)
	if err != nil {
		return "", err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if at := strings.IndexByte(scanner.Text(), '/'); at >= 0 {
			if path := scanner.Text()[at:]; strings.HasPrefix(filepath.Base(path), managementLibrary) {
				return path, nil
			}
		}
	}
	return "", errors.Join(scanner.Err(), errors.New("the NVIDIA management library is not loaded"))
}

// Beside answers the driver's libraries that lie beside its management library, and its
// tools: in the first of the directories that has them.
func Beside(library string, programs []string) (*Driver, error) {
	dir, version := filepath.Dir(library), strings.TrimPrefix(filepath.Base(library), managementLibrary)
	if !strings.Contains(version, ".") {
		return nil, fmt.Errorf("%s does not have the driver's version in its name", library)
	}
	d := &Driver{Libraries: []string{librariesInside}, Programs: []string{programsInside}}
	libraries, err := filepath.Glob(filepath.Join(dir, "lib*.so."+version))
	if err != nil {
		return nil, err
	}
	for _, path := range libraries {
		d.add(path, filepath.Join(librariesInside, filepath.Base(path)))
	}
	for _, tool := range tools {
		for _, directory := range append([]string{filepath.Join(filepath.Dir(dir), "bin")}, programs...) {
			path := filepath.Join(directory, tool)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				d.add(path, filepath.Join(programsInside, tool))
				break
			}
		}
	}
	d.linkLibraries()
	for _, l := range d.Links {
		if name := filepath.Base(l.Path); name == "libcuda.so.1" { // some programs ask for it without its number
			d.link(strings.TrimSuffix(l.Path, ".1"), name)
		}
	}
	d.sort()
	return d, nil
}
