package ctld

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// historyFile is the database of history, in the data directory, unless the site has
// another one.
const historyFile = "history.db"

// maxHistoryDays is a century.
const maxHistoryDays = 36_500

// checkHistory refuses what cannot work.
func (c *Config) checkHistory() error {
	if c.HistoryDays < 0 || c.HistoryDays > maxHistoryDays {
		return fmt.Errorf("%w: history_days = %d must be from 1 to %d, or 0 to keep all", ErrConfig, c.HistoryDays, maxHistoryDays)
	}
	if c.HistoryArchive != "" && !filepath.IsAbs(c.HistoryArchive) {
		return fmt.Errorf("%w: history_archive = %.200q must be an absolute path", ErrConfig, c.HistoryArchive)
	}
	if c.HistoryDatabase != "" {
		if err := history.CheckPostgres(c.HistoryDatabase); err != nil {
			return fmt.Errorf("%w: history_database: %w", ErrConfig, err)
		}
	}
	return nil
}

// newHistory makes what keeps this controller's database.
func (s *Server) newHistory() *history.Keeper {
	return history.New(s.cluster, otherDatabases{s.peers}, history.Options{
		Path: filepath.Join(s.config.DataDir, historyFile), URL: s.config.HistoryDatabase, Keep: time.Duration(s.config.HistoryDays) * 24 * time.Hour,
		Archive: s.config.HistoryArchive, Logger: s.log,
	})
}

// otherDatabases are those of the other controllers.
type otherDatabases struct{ peers *peerlink.Peers }

// CopyHistory implements history.Others.
func (o otherDatabases) CopyHistory(ctx context.Context, after state.Position) ([]history.Row, state.Position, bool) {
	answer, all := o.peers.CopyHistory(ctx, uint64(after))
	rows := make([]history.Row, len(answer.GetRows()))
	for i, row := range answer.GetRows() {
		rows[i] = history.Row{At: state.Position(row.GetPosition()), Run: row.GetRun()}
	}
	return rows, state.Position(answer.GetThrough()), all
}

// How often the leader takes off the outbox what the databases have. trimAnyway is how
// much of it waits before a controller that is away, or cannot write its database, is
// not waited for any more: it copies from another one later.
const (
	trimEvery  = 5 * time.Second
	trimAnyway = 32 << 20 // bytes
)

// trimHistory takes off the outbox what the databases have, while this controller leads.
// list asks all controllers how far theirs is.
func (c *cluster) trimHistory(ctx context.Context, list func(context.Context) *pb.ListPeersResponse) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(trimEvery):
		}
		runs, bytes, _ := c.View().HistorySize()
		if runs == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, listLimit)
		through := trimmable(list(limited).GetPeers(), bytes > trimAnyway)
		cancel()
		if through > c.View().HistoryTrimmed() {
			c.trimThrough(ctx, through)
		}
	}
}

func (c *cluster) trimThrough(ctx context.Context, through state.Position) {
	limited, cancel := context.WithTimeout(ctx, raiseLimit)
	defer cancel()
	if _, err := c.Propose(limited, state.TrimHistory{Through: through}, state.RequestID{}); err != nil && ctx.Err() == nil {
		c.log.Debug("the outbox of history could not be trimmed; it is tried again", "error", err)
	}
}

// trimmable is up to where enough databases have the runs: all of them, or, if that
// takes too long, a majority.
func trimmable(peers []*pb.Peer, anyway bool) state.Position {
	if len(peers) == 0 {
		return 0
	}
	throughs := make([]uint64, len(peers))
	for i, peer := range peers {
		throughs[i] = peer.GetHistoryThrough() // 0 of one that does not answer
	}
	slices.SortFunc(throughs, func(a, b uint64) int { return cmp.Compare(b, a) })
	enough := len(throughs) - 1
	if anyway {
		enough = len(throughs) / 2
	}
	return state.Position(throughs[enough])
}

// historyProblems adds what is wrong with this controller's database to other problems.
func (s *Server) historyProblems(others func() []string) func() []string {
	return func() []string {
		problems := others()
		if why := s.history.Problem(); why != "" {
			problems = append(problems, why)
		}
		if _, _, lost := s.cluster.View().HistorySize(); lost > 0 {
			problems = append(problems, fmt.Sprintf("%d runs of jobs were given up before a history database took them: no gacct shows them", lost))
		}
		return problems
	}
}
