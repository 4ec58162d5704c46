package pid1

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// PMI-1 is lines of words, which MPICH and its relatives speak.

// maxPMILine bounds what a task says at once.
const maxPMILine = 8 << 10

// readPMI reads a line.
func readPMI(r *bufio.Reader) (map[string]string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return parsePMI(strings.TrimSuffix(string(line), "\n")), nil
}

// parsePMI reads "cmd=put key=a value=b c": the last word of a put goes to the line's end.
func parsePMI(line string) map[string]string {
	words := map[string]string{}
	for rest := line; rest != ""; {
		name, value, _ := strings.Cut(strings.TrimLeft(rest, " "), "=")
		if name == "value" {
			words[name] = value
			break
		}
		words[name], rest, _ = strings.Cut(value, " ")
	}
	return words
}

// answerLine is answer with the line's end.
func (s *pmiServer) answerLine(t *pmiTask, said map[string]string) string {
	if line := s.answer(t, said); line != "" {
		return line + "\n"
	}
	return ""
}

// answer is the line that answers; "" = none, or one that comes later.
func (s *pmiServer) answer(t *pmiTask, said map[string]string) string {
	switch said["cmd"] {
	case "init":
		s.setBegun(t, true)
		switch said["pmi_version"] {
		case "1":
			return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
		case "2":
			return "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"
		}
		return "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1"
	case "get_maxes":
		return fmt.Sprintf("cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", step.MaxPMIKey, step.MaxPMIKey, step.MaxPMIValue)
	case "get_appnum":
		return "cmd=appnum appnum=0"
	case "get_my_kvsname":
		return "cmd=my_kvsname kvsname=" + s.Name
	case "get_universe_size":
		return "cmd=universe_size size=" + strconv.Itoa(s.Size)
	case "put":
		if why := s.put(said["key"], said["value"]); why != "" {
			return "cmd=put_result rc=-1 msg=" + why
		}
		return "cmd=put_result rc=0 msg=success"
	case "get":
		if value, known := s.get(said["key"]); known && !strings.Contains(value, "\n") { // PMI-2 may put those
			return "cmd=get_result rc=0 msg=success value=" + value
		}
		return "cmd=get_result rc=-1 msg=key_" + clipWord(said["key"]) + "_not_found value=unknown"
	case "barrier_in":
		s.arrive(t, "cmd=barrier_out\n")
		return ""
	case "finalize":
		s.setBegun(t, false)
		return "cmd=finalize_ack"
	case "abort":
		s.setBegun(t, false)
		code, err := strconv.Atoi(said["exitcode"])
		if err != nil || code < 1 || code > 255 {
			code = 1
		}
		s.abort(code, fmt.Sprintf("task %d called MPI_Abort(%d)", t.rank, code))
		return ""
	}
	return "cmd=" + clipWord(said["cmd"]) + "_result rc=-1 msg=not_supported"
}

// clipWord keeps an answer to one line that a client reads whole.
func clipWord(text string) string { return text[:min(len(text), step.MaxPMIKey)] }
