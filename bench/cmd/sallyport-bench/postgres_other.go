//go:build !unix

package main

import "errors"

func startPostgres(string) (url string, stop func(), err error) {
	return "", nil, errors.New("PostgreSQL is started on Unix only; give --postgres-url")
}
