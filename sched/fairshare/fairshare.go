// Package fairshare ranks the users of a tree of accounts by what they were
// promised and what they have used: the Fair Tree algorithm of Slurm
// (fair_tree.html), and the decay of usage with a half-life
// (priority_multifactor.html, PriorityDecayHalfLife).
//
// Contract: numbers in, numbers out, in whole numbers throughout, so that every
// machine has the same answer. Fair Tree's promise holds to the letter: if an
// account has a higher level fairshare than its sibling, all its users rank
// above all the sibling's, however close the two are, because level fairshares
// are compared as fractions and never rounded. The order of siblings in the
// input changes nothing.
//
// Cost: Rank is N log N comparisons of siblings for N associations, a few
// multiplications each; Decay and Held are at most 60 multiplications.
//
// It imports the standard library only.
package fairshare
