package history

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file looks at the bytes of a run without decoding it: most of them only go on to
// whoever asks, and to decode and to encode each again was most of an answer's cost.

// shape is what the bytes of a message may be: it has the fields in which something can be
// wrong that is not wrong with the bytes around it.
type shape struct {
	messages map[protowire.Number]*shape
	texts    map[protowire.Number]bool
	packed   map[protowire.Number]protowire.Type // lists of numbers, with the type of one
}

var runShape = shapeOf((*pb.PastRun)(nil).ProtoReflect().Descriptor(), map[protoreflect.FullName]*shape{})

// shapeOf makes the shape of a message; known are those that are made, or are being made.
func shapeOf(message protoreflect.MessageDescriptor, known map[protoreflect.FullName]*shape) *shape {
	if s := known[message.FullName()]; s != nil {
		return s
	}
	s := &shape{messages: map[protowire.Number]*shape{}, texts: map[protowire.Number]bool{}, packed: map[protowire.Number]protowire.Type{}}
	known[message.FullName()] = s
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		switch kind := field.Kind(); kind {
		case protoreflect.MessageKind:
			s.messages[field.Number()] = shapeOf(field.Message(), known)
		case protoreflect.StringKind:
			s.texts[field.Number()] = true
		case protoreflect.BytesKind:
		default:
			if field.IsList() {
				s.packed[field.Number()] = numberType(kind)
			}
		}
	}
	return s
}

// numberType is how a number of a kind is written.
func numberType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

// decodes reports whether bytes can be decoded as a message of the shape.
func (s *shape) decodes(bytes []byte) bool {
	for len(bytes) > 0 {
		number, kind, size := protowire.ConsumeTag(bytes)
		if size < 0 {
			return false
		}
		bytes = bytes[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(number, kind, bytes); size < 0 {
				return false
			}
			bytes = bytes[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(bytes)
		if size < 0 || !s.holds(number, value) {
			return false
		}
		bytes = bytes[size:]
	}
	return true
}

// holds reports whether a field may have these bytes.
func (s *shape) holds(number protowire.Number, value []byte) bool {
	if inner := s.messages[number]; inner != nil {
		return inner.decodes(value)
	}
	if s.texts[number] {
		return utf8.Valid(value)
	}
	kind, is := s.packed[number]
	for is && len(value) > 0 {
		size := protowire.ConsumeFieldValue(number, kind, value)
		if size < 0 {
			return false
		}
		value = value[size:]
	}
	return true
}

// stepsField is the number of PastRun.steps.
var stepsField = (*pb.PastRun)(nil).ProtoReflect().Descriptor().Fields().ByName("steps").Number()

// WithoutSteps is a run without what its steps did.
func WithoutSteps(run []byte) []byte {
	var kept []byte // nil = all so far
	for rest := run; len(rest) > 0; {
		number, _, size := protowire.ConsumeField(rest)
		switch {
		case size < 0:
			return run // it is no run
		case number == stepsField && kept == nil:
			kept = append(make([]byte, 0, len(run)), run[:len(run)-len(rest)]...)
		case number != stepsField && kept != nil:
			kept = append(kept, rest[:size]...)
		}
		rest = rest[size:]
	}
	if kept == nil {
		return run
	}
	return kept
}
