package api

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file copies the wanted fields of a run from its encoded form, without making the
// run of it. A long answer costs a fifth of what it costs to decode and to encode each run.

// maxRunFields bounds the paths of one request.
const maxRunFields = 100

// errDamagedRun is returned for what is not an encoded run.
var errDamagedRun = errors.New("the run is not encoded as it should be")

// wantedFields is what is wanted of a message: some of its fields, by number.
type wantedFields struct {
	fields map[protowire.Number]*wantedField // nil = left out
	// low are those with numbers below its length: most have, and a map takes longer.
	low    [64]*wantedField
	others bool // also what this program does not know
}

type wantedField struct {
	of     *wantedFields // of a message, else nil
	text   bool          // has to be UTF-8
	packed func([]byte) int
}

func (w *wantedFields) at(number protowire.Number) *wantedField {
	if int(number) < len(w.low) {
		return w.low[number]
	}
	return w.fields[number]
}

func (w *wantedFields) set(number protowire.Number, field *wantedField) {
	w.fields[number] = field
	if int(number) < len(w.low) {
		w.low[number] = field
	}
}

// wholeRun is all of a run.
var wholeRun = sync.OnceValue(func() *wantedFields { return wholeMessage(runDescriptor()) })

func runDescriptor() protoreflect.MessageDescriptor {
	return (*pb.PastRun)(nil).ProtoReflect().Descriptor()
}

// runFields are the fields that a request wants of a run.
func runFields(request *pb.ListRunsRequest) (*wantedFields, error) {
	if len(request.GetFields()) > maxRunFields {
		return nil, invalid("%d fields in one request: at most %d; leave them out to get all", len(request.GetFields()), maxRunFields)
	}
	wanted := &wantedFields{fields: map[protowire.Number]*wantedField{}}
	if len(request.GetFields()) == 0 {
		*wanted = *wholeRun()
		wanted.fields = maps.Clone(wanted.fields)
	}
	for _, path := range request.GetFields() {
		if !wanted.add(runDescriptor(), path) {
			return nil, invalid("a run has no field %.100q: leave it out, or upgrade this controller", path)
		}
	}
	steps := runDescriptor().Fields().ByName("steps")
	wanted.set(steps.Number(), nil)
	if request.GetSteps() {
		wanted.set(steps.Number(), wholeField(steps))
	}
	return wanted, nil
}

// wantsReason reports whether a request wants the sentence about how a job is, which may
// name other jobs.
func wantsReason(request *pb.ListRunsRequest) bool {
	fields := request.GetFields()
	return len(fields) == 0 || slices.Contains(fields, "job") || slices.Contains(fields, "job.reason_detail")
}

// add adds a path, and reports whether there is such a field.
func (w *wantedFields) add(of protoreflect.MessageDescriptor, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	field := of.Fields().ByName(protoreflect.Name(name))
	switch {
	case field == nil || deeper && (field.Message() == nil || field.IsList() || field.IsMap()):
		return false
	case !deeper:
		w.set(field.Number(), wholeField(field))
		return true
	}
	inner := w.at(field.Number())
	if inner == nil {
		inner = &wantedField{of: &wantedFields{fields: map[protowire.Number]*wantedField{}}}
		w.set(field.Number(), inner)
	}
	return inner.of.others || inner.of.add(field.Message(), rest)
}

func wholeMessage(of protoreflect.MessageDescriptor) *wantedFields {
	all := &wantedFields{fields: map[protowire.Number]*wantedField{}, others: true}
	for i := range of.Fields().Len() {
		all.set(of.Fields().Get(i).Number(), wholeField(of.Fields().Get(i)))
	}
	return all
}

func wholeField(field protoreflect.FieldDescriptor) *wantedField {
	if field.Message() != nil {
		return &wantedField{of: wholeMessage(field.Message())}
	}
	whole := &wantedField{text: field.Kind() == protoreflect.StringKind}
	if field.IsPacked() {
		whole.packed = packedValue(field.Kind())
	}
	return whole
}

// packedValue is the length of the first of several values that are encoded together.
func packedValue(kind protoreflect.Kind) func([]byte) int {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return func(text []byte) int { _, n := protowire.ConsumeFixed32(text); return n }
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return func(text []byte) int { _, n := protowire.ConsumeFixed64(text); return n }
	}
	return func(text []byte) int { _, n := protowire.ConsumeVarint(text); return n }
}

// appendTo appends the wanted fields of an encoded message. What it appends can be decoded:
// it looks at all of that, so that a damaged run is found here and not by who asked.
func (w *wantedFields) appendTo(to, encoded []byte) ([]byte, error) {
	for len(encoded) > 0 {
		number, kind, tag := protowire.ConsumeTag(encoded)
		if tag < 0 {
			return to, errDamagedRun
		}
		length := protowire.ConsumeFieldValue(number, kind, encoded[tag:])
		if length < 0 {
			return to, errDamagedRun
		}
		field, whole := w.at(number), encoded[:tag+length]
		encoded = encoded[tag+length:]
		switch {
		case field == nil:
			if w.others && !w.known(number) {
				to = append(to, whole...)
			}
		case kind != protowire.BytesType:
			to = append(to, whole...)
		default:
			value, _ := protowire.ConsumeBytes(whole[tag:])
			var err error
			if to, err = field.appendTo(to, whole, value, number); err != nil {
				return to, err
			}
		}
	}
	return to, nil
}

// known reports whether the field was left out, and is not one that this program does not
// know.
func (w *wantedFields) known(number protowire.Number) bool {
	_, known := w.fields[number]
	return known
}

// appendTo appends a text, a message or several numbers: whole is the value with its tag.
func (f *wantedField) appendTo(to, whole, value []byte, number protowire.Number) ([]byte, error) {
	switch {
	case f.of != nil:
		to = protowire.AppendTag(to, number, protowire.BytesType)
		from := len(to)
		to, err := f.of.appendTo(to, value)
		if err != nil {
			return to, err
		}
		return lengthBefore(to, from), nil
	case f.text && !utf8.Valid(value):
		return to, errDamagedRun
	case f.packed != nil:
		for rest := value; len(rest) > 0; {
			length := f.packed(rest)
			if length < 0 {
				return to, errDamagedRun
			}
			rest = rest[length:]
		}
	}
	return append(to, whole...), nil
}

// lengthBefore puts the length of what begins at from before it.
func lengthBefore(to []byte, from int) []byte {
	length := len(to) - from
	size := protowire.SizeVarint(uint64(length))
	to = append(to, make([]byte, size)...)
	copy(to[from+size:], to[from:from+length])
	protowire.AppendVarint(to[:from], uint64(length))
	return to
}
