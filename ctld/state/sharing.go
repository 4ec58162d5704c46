package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// This file says who may share a job's nodes: everybody, jobs of its own user,
// or nobody. The job may ask for it (--exclusive), and so may its partition.

// alone reports whether the job has its nodes to itself.
func (j *Job) alone() bool {
	if j.stages() {
		return false
	}
	return j.Spec.Exclusive || j.Run != nil && j.Run.Sharing == policy.ExclusiveNode
}

// userOnly reports whether the job shares its nodes with no other user's jobs.
func (j *Job) userOnly() bool {
	return j.Spec.ExclusiveUser || j.Run != nil && j.Run.Sharing == policy.ExclusiveUser
}

// heldUser counts the jobs of one user on a node.
type heldUser struct {
	uid      uint32
	jobs     uint32
	userOnly uint32 // of them, those that share with no other user
}

// userIDs are the users whose jobs are on a node, ascending, and whether one of
// the jobs does not share with other users.
func (u *nodeUse) userIDs() (ids []uint32, userOnly bool) {
	for _, user := range u.users {
		ids = append(ids, user.uid)
		userOnly = userOnly || user.userOnly > 0
	}
	return ids, userOnly
}

// addUser counts one job more, or with -1 one less.
func (u *nodeUse) addUser(job *Job, change int) {
	uid := job.Owner().UID
	at, found := slices.BinarySearchFunc(u.users, uid, func(user heldUser, uid uint32) int {
		return int(int64(user.uid) - int64(uid))
	})
	if !found {
		u.users = slices.Insert(u.users, at, heldUser{uid: uid})
	}
	user := &u.users[at]
	user.jobs += uint32(change)
	if job.userOnly() {
		user.userOnly += uint32(change)
	}
	if user.jobs == 0 {
		u.users = slices.Delete(u.users, at, at+1)
	}
}

// checkSharing says why a job in this partition must not share a node with the
// jobs that are there.
func checkSharing(job *Job, partition *policy.Partition, node *Node) error {
	return checkJoining(job, node, job.Spec.Exclusive || partition.Exclusive == policy.ExclusiveNode, job.Spec.ExclusiveUser || partition.Exclusive == policy.ExclusiveUser)
}

// checkJoining is checkSharing of a job that shares its nodes with nobody if
// alone, and with none of other users if userOnly.
func checkJoining(job *Job, node *Node, alone, userOnly bool) error {
	use := node.use
	switch {
	case use.exclusive != 0:
		return fmt.Errorf("node %s is job %d's alone", node.Name, use.exclusive)
	case alone && use.shared() > 0:
		return fmt.Errorf("node %s is not empty", node.Name)
	}
	users, theirs := use.userIDs()
	others := slices.ContainsFunc(users, func(uid uint32) bool { return uid != job.Owner().UID })
	switch {
	case others && theirs:
		return fmt.Errorf("node %s is user %d's only", node.Name, users[0])
	case others && userOnly:
		return fmt.Errorf("node %s has jobs of other users", node.Name)
	}
	return nil
}

// checkUsers checks that a node that belongs to one user has no other user's
// jobs.
func (u *nodeUse) checkUsers(name string) error {
	if users, userOnly := u.userIDs(); userOnly && len(users) > 1 {
		return fmt.Errorf("node %s is one user's only, and has jobs of users %v", name, users)
	}
	return nil
}
