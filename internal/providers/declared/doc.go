// Package declared reads the actions that a provider's definition contains, and what it says about all calls to the
// provider: how lists continue, how calls are recognised, and their risk. See README.md.
package declared
