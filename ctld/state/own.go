package state

import "encoding/binary"

// Own is what jobs rarely share, even if they are alike otherwise. None of it
// matters to the scheduler.
type Own struct {
	Name           string   `cbor:"1,keyasint,omitempty"`
	Comment        string   `cbor:"2,keyasint,omitempty"`
	WorkDirectory  string   `cbor:"3,keyasint,omitempty"`
	StandardOutput string   `cbor:"4,keyasint,omitempty"`
	StandardError  string   `cbor:"5,keyasint,omitempty"`
	StandardInput  string   `cbor:"6,keyasint,omitempty"`
	Command        string   `cbor:"7,keyasint,omitempty"` // path of the script; shown, never opened
	Arguments      []string `cbor:"8,keyasint,omitempty"`
}

// packed is an Own as it is kept: each text after its length (a varint), the
// arguments last. One string takes a third of what the struct and its texts
// would, and there are very many jobs.
type packed string

// texts are the single ones, in the order in which they are packed.
func (o *Own) texts() [7]*string {
	return [...]*string{&o.Name, &o.Comment, &o.WorkDirectory, &o.StandardOutput, &o.StandardError, &o.StandardInput, &o.Command}
}

// pack makes the stored form.
func (o *Own) pack() packed {
	size := 0
	for _, text := range o.texts() {
		size += len(*text) + binary.MaxVarintLen32
	}
	for _, argument := range o.Arguments {
		size += len(argument) + binary.MaxVarintLen32
	}
	out := make([]byte, 0, size)
	add := func(text string) {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	for _, text := range o.texts() {
		add(*text)
	}
	for _, argument := range o.Arguments {
		add(argument)
	}
	return packed(out)
}

// unpack does the opposite. Its texts share the memory of p.
func (p packed) unpack() Own {
	var own Own
	for _, text := range own.texts() {
		*text, p = p.cut()
	}
	for len(p) > 0 {
		var argument string
		argument, p = p.cut()
		own.Arguments = append(own.Arguments, argument)
	}
	return own
}

// name is the first text, without unpacking the others.
func (p packed) name() string {
	name, _ := p.cut()
	return name
}

// cut takes one text off the front.
func (p packed) cut() (text string, rest packed) {
	length, shift, n := 0, 0, 0
	for n < len(p) {
		b := p[n]
		n++
		length |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		shift += 7
	}
	return string(p[n : n+length]), p[n+length:]
}
