// Package bounds says how much a command of the log may hold: how long names and texts, and
// how large lists and tables may be, and what names and texts look like.
//
// Contract: constants and functions of their arguments alone. Every controller refuses the
// same commands, so a bound that is raised is a new rule of the state machine.
package bounds
