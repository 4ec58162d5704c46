package prototest

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Only is a message with some of the fields of another, which are named as in "job.spec.name".
// Their values are shared.
func Only[M proto.Message](message M, paths []string) M {
	only := message.ProtoReflect().New()
	for _, path := range paths {
		take(only, message.ProtoReflect(), path)
	}
	return only.Interface().(M)
}

func take(to, from protoreflect.Message, path string) {
	name, rest, deeper := strings.Cut(path, ".")
	field := from.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case !from.Has(field):
	case !deeper:
		to.Set(field, from.Get(field))
	default:
		take(to.Mutable(field).Message(), from.Get(field).Message(), rest)
	}
}
