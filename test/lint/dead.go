package main

import (
	"fmt"
	"path/filepath"

	"honnef.co/go/tools/unused"
)

// deadCode is what no analysed variant of a package uses. A package has two: without
// its tests, and with them.
type deadCode struct {
	used   map[declared]bool
	unused map[declared]unused.Object
}

// declared names an object by its place, which is the same in all variants.
type declared struct {
	pkg, file, name string
	line            int
}

// add notes what one variant uses and does not use.
func (d *deadCode) add(pkg string, result *unused.Result) {
	if d.used == nil {
		d.used, d.unused = map[declared]bool{}, map[declared]unused.Object{}
	}
	for _, object := range result.Used {
		d.used[declaredAt(pkg, &object)] = true
	}
	for _, object := range result.Unused {
		d.unused[declaredAt(pkg, &object)] = object
	}
}

func declaredAt(pkg string, object *unused.Object) declared {
	return declared{pkg, filepath.Base(object.Position.Filename), object.Name, object.Position.Line}
}

// findings are in no order.
func (d *deadCode) findings() (findings []finding) {
	for at, object := range d.unused {
		if !d.used[at] {
			findings = append(findings, finding{object.DisplayPosition, fmt.Sprintf("%s %s is unused", object.Kind, object.Name), "U1000"})
		}
	}
	return findings
}
