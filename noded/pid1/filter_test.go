package pid1

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilterBytes(t *testing.T) {
	filter := &Filter{Flags: unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, Program: []unix.SockFilter{
		{Code: 0x15, Jt: 1, Jf: 200, K: 0xfffffffe}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}}
	data := filter.Encode()
	if want := []byte{4, 0, 0, 0, 0x15, 0, 1, 200, 0xfe, 0xff, 0xff, 0xff, 6, 0, 0, 0, 0, 0, 0xff, 0x7f}; !bytes.Equal(data, want) {
		t.Fatalf("encoded %v, want %v", data, want)
	}
	again, err := DecodeFilter(data)
	if err != nil || !reflect.DeepEqual(again, filter) {
		t.Fatalf("decoded %+v, %v", again, err)
	}
	for n := range data {
		if n == 12 {
			continue // one instruction less
		}
		if _, err := DecodeFilter(data[:n]); err == nil {
			t.Errorf("%d bytes are taken as a filter", n)
		}
	}
	if err := new(Filter).Install(); !errors.Is(err, errNoFilter) {
		t.Errorf("an empty filter: %v", err)
	}
}

func TestOrders(t *testing.T) {
	config := &Config{Batch: &Batch{Argv: []string{"/x"}, Env: []string{"A=\xff"}, Stdout: "/y"}, StepEnv: []string{"B=1"}}
	var wire bytes.Buffer
	if err := WriteOrders(&wire, letAll.Encode(), config); err != nil {
		t.Fatal(err)
	}
	whole := wire.Bytes()
	filter, again, err := ReadOrders(bytes.NewReader(whole))
	if err != nil || !reflect.DeepEqual(filter, letAll) || !reflect.DeepEqual(again, config) {
		t.Fatalf("read %+v %+v %v", filter, again, err)
	}
	for n := range whole {
		if _, _, err := ReadOrders(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("the first %d bytes are taken for orders", n)
		}
	}
	for want, text := range map[string]string{
		"at most":           "\xff\xff\xff\xff",
		"empty":             "\x00\x00\x00\x00{}",
		"lacks its path":    string(whole[:16]) + `{"batch":{}}`,
		"more than 8388608": string(whole[:16]) + strings.Repeat(" ", maxConfigBytes+1),
	} {
		if _, _, err := ReadOrders(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}
