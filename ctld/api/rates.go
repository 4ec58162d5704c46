package api

import (
	"container/list"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// leastWait is the shortest time that a user is told to wait: a client that
// asks again at once only makes more requests.
const leastWait = 100 * time.Millisecond

// readEvery is how old the limit may be that is in force here.
const readEvery = 250 * time.Millisecond

// rates bounds how often each user may ask: a bucket of tokens each, as Slurm's
// rl_enable. It belongs to one controller and is not in the log: a new leader
// begins with full buckets. A request through another controller takes a token
// there and one from the leader, so that asking several at once gains nothing.
type rates struct {
	now    func() time.Time
	policy func() policy.RateLimit // what the policy says
	log    *slog.Logger

	mu      sync.Mutex
	inForce policy.RateLimit
	read    time.Time                // when the policy was asked
	buckets map[string]*list.Element // of *bucket
	recent  list.List                // the last one to ask is in front
}

// bucket is one user's.
type bucket struct {
	user    string
	tokens  *rate.Limiter
	refused int // since it was logged
	logged  time.Time
}

// take takes a token from a user's bucket. The error makes clients wait, and
// says how long.
func (r *rates) take(user string) error {
	wait, refusals, limit := r.reserve(user)
	if wait == 0 {
		return nil
	}
	if refusals > 0 {
		r.log.Warn("a user asks too often and is told to wait; if it continues, look at what that user runs, or raise rl_refill_rate in cluster.toml", "client", user, "refused", refusals)
	}
	said, err := status.Newf(codes.ResourceExhausted,
		"%s asks too often: wait a moment and ask again. One user may make %d requests at once, and then %d every %d s (rl_bucket_size, rl_refill_rate, rl_refill_period)",
		user, limit.Bucket, limit.Refill, limit.PeriodS).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(max(wait, leastWait))})
	if err != nil {
		return status.Errorf(codes.Unavailable, "%s asks too often: wait a moment and ask again", user)
	}
	return said.Err()
}

// reserve returns how long a user has to wait for a token, 0 = one was taken,
// and how many refusals are to be logged now.
func (r *rates) reserve(user string) (wait time.Duration, refusals int, limit policy.RateLimit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.follow(now)
	if limit = r.inForce; limit.Off {
		return 0, 0, limit
	}
	b := r.bucketOf(user)
	taken := b.tokens.ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait == 0 {
		return 0, 0, limit
	}
	taken.CancelAt(now)
	if b.refused++; b.logged.IsZero() || now.Sub(b.logged) >= time.Duration(limit.LogFreqS)*time.Second {
		refusals, b.refused, b.logged = b.refused, 0, now
	}
	return wait, refusals, limit
}

// follow adopts the policy soon after it has changed: to look at the policy for
// each request costs more than to refuse one. Under a new limit all buckets are
// full again.
func (r *rates) follow(now time.Time) {
	if r.buckets != nil && now.Sub(r.read) < readEvery {
		return
	}
	r.read = now
	if limit := r.policy().InForce(); r.buckets == nil || r.inForce != limit {
		r.inForce, r.buckets = limit, make(map[string]*list.Element)
		r.recent.Init()
	}
}

// bucketOf finds a user's bucket, or makes a full one. The table is bounded:
// the bucket of the user who has been idle for longest is removed. It is full
// by then, unless more users ask than the table has places for.
func (r *rates) bucketOf(user string) *bucket {
	if known, found := r.buckets[user]; found {
		r.recent.MoveToFront(known)
		return known.Value.(*bucket)
	}
	if len(r.buckets) >= int(r.inForce.Table) {
		oldest := r.recent.Back()
		delete(r.buckets, oldest.Value.(*bucket).user)
		r.recent.Remove(oldest)
	}
	each := rate.Limit(float64(r.inForce.Refill) / float64(r.inForce.PeriodS))
	made := &bucket{user: user, tokens: rate.NewLimiter(each, int(r.inForce.Bucket))}
	r.buckets[user] = r.recent.PushFront(made)
	return made
}
