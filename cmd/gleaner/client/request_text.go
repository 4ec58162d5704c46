package client

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// CheckText refuses a request with a text in it that is not UTF-8, which no
// message can carry, and names the field. What a user typed is the only
// source of such a text.
func CheckText(request protoreflect.Message) error {
	var bad error
	check := func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch field.Kind() {
		case protoreflect.StringKind:
			if text := value.String(); !utf8.ValidString(text) {
				bad = option.Fail(1, "the %s %.128q holds bytes that are not UTF-8: type it again, or leave it out",
					strings.ReplaceAll(string(field.Name()), "_", " "), text)
			}
		case protoreflect.MessageKind:
			bad = CheckText(value.Message())
		}
		return bad == nil
	}
	request.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.IsMap() {
			return true // no request has one
		}
		if !field.IsList() {
			return check(field, value)
		}
		list := value.List()
		for i := 0; i < list.Len() && check(field, list.Get(i)); i++ {
		}
		return bad == nil
	})
	return bad
}
