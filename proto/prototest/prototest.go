// Package prototest helps fuzz targets to play a hostile peer, and tests to
// wait. It promises messages in which every field is set (Fill), several
// messages in one input (Join and Split), a test for texts that are safe to
// print (Plain), and one bound for all that a test waits for (Patience). It is
// for tests only.
package prototest

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Nasty are texts that a terminal, a log or a shell could stumble over; all
// are valid UTF-8, for nothing else arrives over gRPC.
var Nasty = []string{
	"\x1b[2J\x07", "\u009b31m\u0085", "a\nb\r\tc", "\u202egnp.exe", "%s%n%!d(MISSING)", "\x00", "../../etc/passwd",
	"n[1-999999999]", "-1", "$(reboot)", "\ufffd", "\U000e0041",
}

// Fill sets every field of a message, and of the messages in it, to a depth of
// four: texts and bytes to text, numbers to number cut to their size, enums to
// it too, lists to two entries. Of a oneof the last kind stays.
func Fill(message proto.Message, text string, number uint64) {
	fill(message.ProtoReflect(), text, number, 4)
}

func fill(m protoreflect.Message, text string, number uint64, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
		case field.IsList():
			list := m.Mutable(field).List()
			for range 2 {
				if field.Message() == nil {
					list.Append(scalar(field, text, number))
				} else if depth > 0 {
					fill(list.AppendMutable().Message(), text, number, depth-1)
				}
			}
		case field.Message() != nil:
			if depth > 0 {
				fill(m.Mutable(field).Message(), text, number, depth-1)
			}
		default:
			m.Set(field, scalar(field, text, number))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor, text string, number uint64) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(number != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(number & math.MaxInt32))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(number))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(number))
	}
	return protoreflect.ValueOfUint64(number)
}

// Hostile returns encoded messages of a kind: an empty one, and full ones of
// each nasty text with numbers that are small, or at an edge.
func Hostile[M any, P interface {
	*M
	proto.Message
}]() [][]byte {
	numbers := []uint64{1, 0, math.MaxUint64, math.MaxInt64, math.MaxInt32, 1 << 31, 2}
	encoded := [][]byte{{}}
	for i, text := range Nasty {
		message := P(new(M))
		Fill(message, text, numbers[i%len(numbers)])
		encoded = append(encoded, Marshal(message))
	}
	return encoded
}

// Spoiled returns encoded copies of a sound message, in each of which one field
// is nasty: of the message itself, or of one in it that is set.
func Spoiled(message proto.Message) [][]byte {
	var encoded [][]byte
	var spoil func(m protoreflect.Message)
	spoil = func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			switch {
			case field.IsMap() || field.Message() != nil && field.IsList() && m.Get(field).List().Len() == 0:
			case field.Message() != nil && field.IsList():
				spoil(m.Get(field).List().Get(0).Message())
			case field.Message() != nil:
				if m.Has(field) {
					spoil(m.Mutable(field).Message())
				}
			default:
				had, before := m.Has(field), m.Get(field)
				value := scalar(field, Nasty[len(encoded)%len(Nasty)], math.MaxUint64>>(len(encoded)%3))
				if field.IsList() {
					list := m.NewField(field)
					list.List().Append(value)
					list.List().Append(value)
					value = list
				}
				if had && field.IsList() {
					kept := m.NewField(field)
					for at := range before.List().Len() {
						kept.List().Append(before.List().Get(at))
					}
					before = kept
				}
				m.Set(field, value)
				encoded = append(encoded, Marshal(message))
				m.Clear(field)
				if had {
					m.Set(field, before)
				}
			}
		}
	}
	message = proto.Clone(message)
	spoil(message.ProtoReflect())
	return encoded
}

// Marshal encodes a message that the test has made, and panics if that cannot
// be.
func Marshal(message proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(err)
	}
	return data
}

// Join puts several messages, and of what kind each is, into one input.
func Join(kinds []byte, messages [][]byte) []byte {
	var data []byte
	for i, message := range messages {
		data = protowire.AppendBytes(append(data, kinds[i]), message)
	}
	return data
}

// Split takes an input apart again: whatever it holds, at most that many
// messages, the last of which may be cut short.
func Split(data []byte, most int) (kinds []byte, messages [][]byte) {
	for len(data) > 0 && len(messages) < most {
		kinds = append(kinds, data[0])
		message, n := protowire.ConsumeBytes(data[1:])
		if n < 0 {
			return kinds, append(messages, data[1:])
		}
		messages, data = append(messages, message), data[1+n:]
	}
	return kinds, messages
}

// Plain says what in a text a terminal might obey, or is no text; lines may
// end.
func Plain(text string) error {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return fmt.Errorf("a byte that is no text at %d of %.200q", i, text)
		}
		if r != '\n' && !unicode.IsPrint(r) {
			return fmt.Errorf("%U at %d of %.200q", r, i, text)
		}
	}
	return nil
}
