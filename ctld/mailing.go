package ctld

import "github.com/gleaner-hpc/gleaner/ctld/mail"

// mailProblems adds why mails wait to other problems.
func mailProblems(mailer *mail.Mailer, others func() []string) func() []string {
	return func() []string {
		problems := others()
		if why := mailer.Problem(); why != "" {
			problems = append(problems, why)
		}
		return problems
	}
}
