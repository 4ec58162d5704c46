package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// unknownNames lists the names in a job's request that accounting does not
// know, and says what becomes of the job: where accounting is not enforced, an
// account or a QOS may be anything, and a typing error would show nowhere.
func unknownNames(view *state.View, command *state.SubmitJob, partitions []string) []string {
	asked, policy := command.Spec, view.Policy()
	asked.Partitions = partitions
	if len(partitions) == 0 {
		return nil
	}
	var texts []string
	if asked.Account != "" && !policy.Accounting.EnforceAssociations && !view.IsCharged(&asked, &command.Owner) {
		texts = append(texts, uncharged(view, asked.Account, command.Owner.User))
	}
	if _, known := view.QOS(asked.QOS); asked.QOS != "" && !known && !policy.Accounting.EnforceQOS {
		var names []string
		for qos := range view.AllQOS() {
			names = append(names, qos.Name)
		}
		texts = append(texts, fmt.Sprintf("there is no QOS %.64q: the job has the priority of none, and no limits of one%s", asked.QOS, perhaps(asked.QOS, names)))
	}
	if asked.MailTypes != 0 && policy.Mail == nil {
		texts = append(texts, "--mail-type has no effect: this cluster sends no mail ([mail] in cluster.toml)")
	}
	return texts
}

// uncharged is about a job that is charged to no association.
func uncharged(view *state.View, account, user string) string {
	const so = "nobody is charged for the job, and no share or limit counts for it"
	if _, known := view.Account(account); !known {
		var names []string
		for known := range view.Accounts() {
			names = append(names, known.Name)
		}
		return fmt.Sprintf("there is no account %.64q: %s%s", account, so, perhaps(account, names))
	}
	var own []string
	for association := range view.AssociationsOf(user) {
		if !slices.Contains(own, association.Account) {
			own = append(own, association.Account)
		}
	}
	text := fmt.Sprintf("user %.64q has no association with account %s: %s", user, account, so)
	if len(own) > 0 {
		text += "; there is one with " + strings.Join(own[:min(len(own), 5)], ", ")
	}
	return text
}

// perhaps asks whether another name was meant.
func perhaps(name string, names []string) string {
	if nearest := similar.Nearest(name, names); nearest != "" {
		return "; did you mean " + nearest + "?"
	}
	return ""
}
