package pid1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// PMI-2 is messages: six bytes of length, then "cmd=WORD;NAME=VALUE;…", where a semicolon
// in a value is two. Slurm's libpmi2 and MPICH's own library speak it.

const (
	pmi2Length = 6
	// maxPMI2Message bounds what a task says at once, as its libraries do.
	maxPMI2Message = 64 << 10
	// maxPMI2Words bounds the words of a message: the longest, of a spawn, is refused.
	maxPMI2Words = 1024
	// maxPMI2Waits bounds how often the tasks wait for attributes of the node: a thread of
	// a task waits for one.
	maxPMI2Waits = 4 * step.MaxTasks
	// maxPMI2Attributes bounds those of a node, in bytes.
	maxPMI2Attributes = 1 << 20
	// maxPMI2Text bounds what a task says when it gives up.
	maxPMI2Text = 512
)

// Statuses of PMI-2's interface.
const (
	pmi2OK         = "0"
	pmi2Fail       = "-1"
	pmi2InvalidArg = "3"
)

const pmi2Finalize = "finalize"

var errPMI2 = errors.New("not a message of PMI-2")

// attrWait is a task that waits for an attribute of the node.
type attrWait struct {
	task   *pmiTask
	key    string
	thread string
}

// readPMI2 reads a message.
func readPMI2(r *bufio.Reader) (map[string]string, error) {
	var head [pmi2Length]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(strings.Trim(string(head[:]), " \x00"))
	if err != nil || length < 0 || length > maxPMI2Message {
		return nil, errPMI2
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	words := parsePMI2(string(text))
	if words == nil {
		return nil, errPMI2
	}
	return words, nil
}

// parsePMI2 is nil if the text is not one of words. Of words of one name the first counts.
func parsePMI2(text string) map[string]string {
	words := map[string]string{}
	for rest := text; rest != ""; {
		name, after, named := strings.Cut(rest, "=")
		value, end, ended := cutPMI2Value(after)
		if !named || !ended || len(words) == maxPMI2Words {
			return nil
		}
		if _, twice := words[name]; !twice {
			words[name] = value
		}
		rest = end
	}
	return words
}

// cutPMI2Value reads a value up to the semicolon that ends it.
func cutPMI2Value(text string) (value, rest string, ended bool) {
	for at := 0; at < len(text); at++ {
		if text[at] != ';' {
			continue
		}
		if at++; at == len(text) || text[at] != ';' {
			return strings.ReplaceAll(text[:at-1], ";;", ";"), text[at:], true
		}
	}
	return "", "", false
}

// pmi2Message is the answer to what was said, with words as pairs.
func pmi2Message(cmd, thread, rc string, words ...string) string {
	all := []string{"cmd", cmd + "-response"}
	if thread != "" { // the thread of the task that asked
		all = append(all, "thrid", thread)
	}
	all = append(all, "rc", rc)
	var text strings.Builder
	for pair := range slices.Chunk(append(all, words...), 2) {
		text.WriteString(pair[0] + "=" + strings.ReplaceAll(pair[1], ";", ";;") + ";")
	}
	return fmt.Sprintf("%-*d%s", pmi2Length, text.Len(), text.String())
}

// found are the words of a value that is looked for.
func found(value string, known bool) []string {
	if !known {
		return []string{"found", "FALSE"}
	}
	return []string{"found", "TRUE", "value", value}
}

// answerMessage answers PMI-2; "" = there is no answer, or one that comes later.
func (s *pmiServer) answerMessage(t *pmiTask, said map[string]string) string {
	cmd := said["cmd"]
	if len(cmd) > step.MaxPMIKey || len(said["thrid"]) > step.MaxPMIKey {
		return pmi2Message("unknown", "", pmi2InvalidArg, "errmsg", "too long")
	}
	reply := func(rc string, words ...string) string { return pmi2Message(cmd, said["thrid"], rc, words...) }
	switch cmd {
	case "fullinit":
		return reply(pmi2OK, "pmi-version", "2", "pmi-subversion", "0",
			"rank", strconv.FormatUint(uint64(t.rank), 10), "size", strconv.Itoa(s.Size), "appnum", "0", "debugged", "FALSE", "pmiverbose", "FALSE")
	case pmi2Finalize:
		s.setBegun(t, false)
		return reply(pmi2OK)
	case "abort":
		s.abort2(t, said)
		return ""
	case "job-getid":
		return reply(pmi2OK, "jobid", s.Name)
	case "kvs-put":
		return putReply(reply, s.put(said["key"], said["value"]))
	case "kvs-get":
		if job := said["jobid"]; job != "" && job != s.Name {
			return reply(pmi2OK, found("", false)...)
		}
		return reply(pmi2OK, found(s.get(said["key"]))...)
	case "kvs-fence":
		if !s.arrive(t, reply(pmi2OK)) {
			return reply(pmi2Fail, "errmsg", "the task is at a fence already")
		}
		return ""
	case "info-putnodeattr":
		return putReply(reply, s.putAttribute(said["key"], said["value"]))
	case "info-getnodeattr":
		return s.getAttribute(t, said, reply)
	case "info-getjobattr":
		return reply(pmi2OK, found(s.jobAttribute(said["key"]))...)
	case "name-publish", "name-unpublish", "name-lookup":
		return reply(pmi2Fail, "errmsg", "names are not kept: pass ports by a file")
	case "spawn":
		return reply(pmi2Fail, "errmsg", "tasks are not started from a program: start them all by grun")
	}
	return reply(pmi2Fail, "errmsg", "not supported")
}

func putReply(reply func(string, ...string) string, why string) string {
	if why != "" {
		return reply(pmi2InvalidArg, "errmsg", why)
	}
	return reply(pmi2OK)
}

// abort2: without isworld only the task itself gives up.
func (s *pmiServer) abort2(t *pmiTask, said map[string]string) {
	s.setBegun(t, false)
	if said["isworld"] != "TRUE" {
		return
	}
	text := fmt.Sprintf("task %d called PMI2_Abort", t.rank)
	if why := said["msg"]; why != "" {
		text += ": " + strings.ToValidUTF8(why[:min(len(why), maxPMI2Text)], "?")
	}
	s.abort(1, text)
}

// jobAttribute is what the step knows of itself.
func (s *pmiServer) jobAttribute(key string) (string, bool) {
	switch key {
	case "PMI_process_mapping":
		return s.Mapping, s.Mapping != ""
	case "universeSize":
		return strconv.Itoa(s.Size), true
	}
	return "", false
}

// putAttribute answers why it did not. Tasks that wait for the attribute go on.
func (s *pmiServer) putAttribute(key, value string) string {
	if key == "" || len(key) > step.MaxPMIKey || len(value) > step.MaxPMIValue {
		return "too_long"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	added := step.Pairs{key: value}.Bytes()
	if s.attrBytes+added > maxPMI2Attributes {
		return "full"
	}
	s.attributes[key] = value
	s.attrBytes += added
	s.waiting = slices.DeleteFunc(s.waiting, func(w attrWait) bool {
		if w.key != key {
			return false
		}
		_, _ = w.task.conn.WriteString(pmi2Message("info-getnodeattr", w.thread, pmi2OK, found(value, true)...)) // its reader notices
		return true
	})
	return ""
}

// getAttribute answers later if the task waits for an attribute that nobody has put.
func (s *pmiServer) getAttribute(t *pmiTask, said map[string]string, reply func(string, ...string) string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, known := s.attributes[said["key"]]
	if known || said["wait"] != "TRUE" {
		return reply(pmi2OK, found(value, known)...)
	}
	if len(s.waiting) == maxPMI2Waits {
		return reply(pmi2Fail, "errmsg", "too many wait")
	}
	s.waiting = append(s.waiting, attrWait{t, strings.Clone(said["key"]), strings.Clone(said["thrid"])})
	return ""
}
