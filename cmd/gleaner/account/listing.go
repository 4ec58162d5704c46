package account

import (
	"slices"
	"strings"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Listing is all that a controller knows of accounts, at one moment.
type Listing struct {
	Cluster      string
	TRES         []string
	QOS          []*pb.Qos
	Accounts     []*pb.Account
	Users        []*pb.AccountUser
	Associations []*pb.Association // as a tree: see pb.ListAccountsResponse
	Events       []*pb.NodeEvent   // of a request to show events
	Now          time.Time         // when they were asked for

	index *index // made by the first look
}

// index finds records by their names.
type index struct {
	accounts     map[string]*pb.Account
	users        map[string]*pb.AccountUser
	associations map[string]*pb.Association // account, user, partition
	inAccount    map[string][]*pb.Association
	ofUser       map[string][]*pb.Association
	below        map[string][]*pb.Association // of the accounts below one
}

// Add adds one message of the answer.
func (l *Listing) Add(m *pb.ListAccountsResponse) {
	if m.GetCluster() != "" {
		l.Cluster, l.TRES = m.GetCluster(), m.GetTres()
	}
	l.QOS = append(l.QOS, m.GetQos()...)
	l.Accounts = append(l.Accounts, m.GetAccounts()...)
	l.Users = append(l.Users, m.GetUsers()...)
	l.Associations = append(l.Associations, m.GetAssociations()...)
	l.index = nil
}

func (l *Listing) look() *index {
	if l.index != nil {
		return l.index
	}
	l.index = &index{
		accounts: map[string]*pb.Account{}, users: map[string]*pb.AccountUser{}, associations: map[string]*pb.Association{},
		inAccount: map[string][]*pb.Association{}, ofUser: map[string][]*pb.Association{}, below: map[string][]*pb.Association{},
	}
	for _, account := range l.Accounts {
		l.index.accounts[account.GetName()] = account
	}
	for _, user := range l.Users {
		l.index.users[user.GetName()] = user
	}
	for _, a := range l.Associations {
		l.index.associations[associationKey(a.GetAccount(), a.GetUser(), a.GetPartition())] = a
		l.index.inAccount[a.GetAccount()] = append(l.index.inAccount[a.GetAccount()], a)
		if a.GetUser() != "" {
			l.index.ofUser[a.GetUser()] = append(l.index.ofUser[a.GetUser()], a)
		} else if a.GetParentAccount() != "" {
			l.index.below[a.GetParentAccount()] = append(l.index.below[a.GetParentAccount()], a)
		}
	}
	return l.index
}

func associationKey(account, user, partition string) string {
	return account + "\x00" + user + "\x00" + partition
}

func (l *Listing) account(name string) *pb.Account  { return l.look().accounts[name] }
func (l *Listing) user(name string) *pb.AccountUser { return l.look().users[name] }

func (l *Listing) qos(name string) *pb.Qos {
	if at := slices.IndexFunc(l.QOS, func(q *pb.Qos) bool { return q.GetName() == name }); at >= 0 {
		return l.QOS[at]
	}
	return nil
}

func (l *Listing) association(account, user, partition string) *pb.Association {
	return l.look().associations[associationKey(account, user, partition)]
}

// above is the association of the account above one; nil for the root's.
func (l *Listing) above(a *pb.Association) *pb.Association {
	if a.GetParentAccount() == "" {
		return nil
	}
	return l.association(a.GetParentAccount(), "", "")
}

// maxDepth bounds a way up, whatever a controller answers.
const maxDepth = 1_000

// limit is a limit that is in force: set here or, for what is not counted over
// a group, at the nearest account above.
func (l *Listing) limit(a *pb.Association, kind pb.LimitKind, inherited bool) []*pb.Limit {
	for range maxDepth {
		if set := limitsOf(a.GetLimits(), kind); len(set) > 0 || !inherited || isGroup(kind) {
			return set
		}
		if a = l.above(a); a == nil {
			break
		}
	}
	return nil
}

func limitsOf(all []*pb.Limit, kind pb.LimitKind) []*pb.Limit {
	var set []*pb.Limit
	for _, limit := range all {
		if limit.GetKind() == kind {
			set = append(set, limit)
		}
	}
	return set
}

func isGroup(kind pb.LimitKind) bool {
	return strings.HasPrefix(kind.String(), "LIMIT_KIND_GROUP")
}

// coordinates are the accounts that a user is a coordinator of.
func (l *Listing) coordinates(user string) []string {
	var accounts []string
	for _, a := range l.Accounts {
		if slices.Contains(a.GetCoordinators(), user) {
			accounts = append(accounts, a.GetName())
		}
	}
	return accounts
}
