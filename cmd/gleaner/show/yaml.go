package show

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/safejson"
)

// YAMLOption is the option of every command that can print YAML: what --json prints, in
// other marks.
func YAMLOption() option.Option {
	return option.Option{Long: "yaml", Argument: "version", OptionalArgument: true, Default: "v0.0.43", Help: "print YAML, with the keys and versions of --json"}
}

// toYAML makes YAML of all JSON that a command prints from now on, record by record.
func toYAML(inv *option.Invocation) {
	out := inv.Stdout
	from, to := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := yamlOf(out, from)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			err = errors.New("what this prints is no list, and has no YAML; leave --yaml out")
		}
		from.CloseWithError(err) // the command's next write fails too
		done <- err
	}()
	inv.Stdout = to
	inv.AtEnd = func() error {
		_ = to.Close() // which cannot fail
		return <-done
	}
}

// yamlOf reads objects of JSON and writes each as a document.
func yamlOf(to io.Writer, from io.Reader) error {
	out := bufio.NewWriter(to)
	decoder := json.NewDecoder(from)
	decoder.UseNumber()
	for {
		switch token, err := decoder.Token(); {
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			return err
		case token != json.Delim('{'):
			return errors.New("a document that is no object")
		}
		_, _ = out.WriteString("---\n") // a bufio.Writer keeps its error for Flush
		if err := yamlDocument(out, decoder); err != nil {
			return errors.Join(err, out.Flush())
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// yamlDocument writes an object whose beginning has been read. Of a list, which may be long,
// it has one record at a time.
func yamlDocument(out *bufio.Writer, decoder *json.Decoder) error {
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		value, err := decoder.Token()
		if err != nil {
			return err
		}
		if value == json.Delim('[') && decoder.More() {
			err = yamlList(out, key, decoder)
		} else {
			err = yamlPair(out, key, value, decoder)
		}
		if err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

func yamlPair(out *bufio.Writer, key, value json.Token, decoder *json.Decoder) error {
	node, err := yamlNode(value, decoder)
	if err != nil {
		return err
	}
	return writeYAML(out, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{yamlScalar(key), node}})
}

func yamlList(out *bufio.Writer, key json.Token, decoder *json.Decoder) error {
	_, _ = out.WriteString(fmt.Sprint(key) + ":\n") // keys are Gleaner's own words
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		node, err := yamlNode(token, decoder)
		if err != nil {
			return err
		}
		if err := writeYAML(out, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{node}}); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// yamlNode is a value whose first token has been read.
func yamlNode(token json.Token, decoder *json.Decoder) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode}
	switch token {
	case json.Delim('{'):
		node.Kind = yaml.MappingNode
	case json.Delim('['):
	default:
		return yamlScalar(token), nil
	}
	for decoder.More() {
		part, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		kid, err := yamlNode(part, decoder) // a key is a scalar too
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, kid)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err := decoder.Token()
	return node, err
}

func yamlScalar(token json.Token) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode}
	switch token := token.(type) {
	case string:
		node.Tag, node.Value = "!!str", token
		if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
			node.Style = yaml.DoubleQuotedStyle // in which all can be escaped
		}
	case json.Number:
		node.Tag, node.Value = "!!int", token.String()
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(token)
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node
}

// writeYAML writes a node, without what a terminal might obey.
func writeYAML(out *bufio.Writer, node *yaml.Node) error {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(node), encoder.Close()); err != nil {
		return err
	}
	for line := range bytes.Lines(text.Bytes()) {
		_, _ = out.Write(safejson.Escaped(bytes.TrimSuffix(line, []byte("\n"))))
		_ = out.WriteByte('\n')
	}
	return nil
}
