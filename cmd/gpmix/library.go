//go:build pmix

package main

// #cgo pkg-config: pmix
// #include <stdlib.h>
// #include "bridge.h"
import "C"

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// memory is what C is lent, until free.
type memory []unsafe.Pointer

func (m *memory) text(s string) *C.char {
	c := C.CString(s)
	*m = append(*m, unsafe.Pointer(c))
	return c
}

// texts is an array of texts, in memory of C: it holds pointers.
func (m *memory) texts(all []string) **C.char {
	first := (**C.char)(C.calloc(C.size_t(len(all)), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	*m = append(*m, unsafe.Pointer(first))
	table := unsafe.Slice(first, len(all))
	for i := range all {
		table[i] = m.text(all[i])
	}
	return first
}

func (m *memory) free() {
	for _, p := range *m {
		C.free(p)
	}
}

func statusError(status C.pmix_status_t) error {
	if status == C.PMIX_SUCCESS {
		return nil
	}
	return fmt.Errorf("PMIx: %s", C.GoString(C.PMIx_Error_string(status)))
}

// begin starts the library's server, and answers what the tasks here are to have in their
// environment. dir is for its files.
func begin(job *step.PMIxJob, dir string) ([]step.Strings, error) {
	var lent memory
	defer lent.free()
	here := &job.Nodes[job.Here]
	if err := statusError(C.gp_begin(lent.text(here.Name), lent.text(dir))); err != nil {
		return nil, err
	}
	if err := describe(job, dir, &lent); err != nil {
		return nil, err
	}
	var all []step.Strings
	for _, rank := range here.Ranks {
		var env **C.char
		var count C.size_t
		if err := statusError(C.gp_client(lent.text(job.Space), C.uint32_t(rank), &env, &count)); err != nil {
			return nil, err
		}
		var variables step.Strings
		for _, variable := range unsafe.Slice(env, int(count)) {
			variables = append(variables, C.GoString(variable))
		}
		C.gp_free(env, count)
		all = append(all, variables)
	}
	return all, nil
}

// describe tells the library which tasks run where.
func describe(job *step.PMIxJob, dir string, lent *memory) error {
	size := job.Size()
	node, local := make([]C.uint32_t, size), make([]C.uint16_t, size)
	var names, ranks []string
	for i := range job.Nodes {
		names = append(names, job.Nodes[i].Name)
		ranks = append(ranks, list(job.Nodes[i].Ranks))
		for place, rank := range job.Nodes[i].Ranks {
			node[rank], local[rank] = C.uint32_t(i), C.uint16_t(place)
		}
	}
	here := job.Nodes[job.Here].Ranks
	return statusError(C.gp_job(lent.text(job.Space), lent.text(job.Job), lent.text(strings.Join(names, ",")), lent.text(strings.Join(ranks, ";")),
		lent.text(list(here)), lent.text(dir), lent.texts(names), &node[0], &local[0],
		C.uint32_t(size), C.uint32_t(len(names)), C.uint32_t(job.Here), C.uint32_t(len(here))))
}

func end() { C.gp_end() }

// list is "0,1,2".
func list(ranks []uint32) string {
	words := make([]string, len(ranks))
	for i, rank := range ranks {
		words[i] = strconv.FormatUint(uint64(rank), 10)
	}
	return strings.Join(words, ",")
}

//export goConnected
func goConnected(rank C.uint32_t) { served.begun(uint32(rank)) }

//export goFinalized
func goFinalized(rank C.uint32_t) { served.finalized(uint32(rank)) }

//export goAbort
func goAbort(rank C.uint32_t, code C.int, text *C.char) {
	served.abort(uint32(rank), int(code), C.GoString(text))
}

//export goFence
func goFence(of unsafe.Pointer, ranks *C.uint32_t, count C.size_t, data *C.char, bytes C.size_t) C.pmix_status_t {
	if bytes > step.MaxPMIBytes {
		served.tooMuch()
		return C.PMIX_ERR_OUT_OF_RESOURCE
	}
	members := slices.Clone(unsafe.Slice((*uint32)(unsafe.Pointer(ranks)), int(count)))
	put := C.GoBytes(unsafe.Pointer(data), C.int(bytes))
	over := func(all []byte) { C.gp_fenced(of, C.PMIX_SUCCESS, (*C.char)(C.CBytes(all)), C.size_t(len(all))) }
	switch {
	case slices.Contains(members, C.PMIX_RANK_WILDCARD), len(members) == served.job.Size():
		served.fence(put, over)
	case served.isHere(members):
		go over(put)
	default:
		return C.PMIX_ERR_NOT_SUPPORTED
	}
	return C.PMIX_SUCCESS
}
