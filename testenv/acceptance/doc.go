// Package acceptance holds the tests that run the two real programs, as
// processes of their own, against real Kafka clusters: what a user would see.
//
// Without settings the tests are small enough for every run. KMP_LONG=1 makes
// them as long as the acceptance of the project asks; KMP_SEED, which every
// run prints, repeats its random choices.
package acceptance
