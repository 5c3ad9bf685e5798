package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	// maxInput limits a file for a request's body; the API takes 256 KiB.
	maxInput = 1 << 20
	// maxSecretFile is larger than any secret that the API takes.
	maxSecretFile = 16 << 10
)

// readInput reads a file, or standard input where path is "-".
func (e *env) readInput(path string) ([]byte, error) {
	return e.readUpTo(path, maxInput)
}

func (e *env) readUpTo(path string, limit int64) (text []byte, err error) {
	if path == "-" {
		text, err = readAtMost(e.stdin, limit)
	} else {
		text, err = readSmall(path, limit)
	}
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return nil, err // it names the file
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", named(path), err)
	}
	return text, nil
}

func named(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// readProperties reads the JSON object of --from-file, which is empty without the flag. Numbers keep their text.
func (e *env) readProperties(path string) (map[string]any, error) {
	body := map[string]any{}
	if path == "" {
		return body, nil
	}
	text, err := e.readInput(path)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, usageError(named(path) + " must contain one JSON object")
	}
	for name, v := range members {
		body[name] = v
	}
	return body, nil
}

// errNoSecret reports that a file contains no secret.
var errNoSecret = errors.New("it contains no secret")

// readSecret reads a secret without the line breaks at its end, which editors add.
func (e *env) readSecret(path string) (string, error) {
	text, err := e.readUpTo(path, maxSecretFile)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("read %s: %w", named(path), errNoSecret)
	}
	return secret, nil
}
