// Package event makes the bodies that the generator sends and keeps the record of each: sent, acknowledged, seen at the
// sink.
package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// BodySize is the size of every body in bytes.
const BodySize = 1024

// A mark is the text in a body by which the sink recognises it: the prefix, the run's epoch and the event's sequence
// number, both as eight hexadecimal digits. It is a JSON string value, so it survives any re-serialisation that keeps
// strings.
const (
	markPrefix = "sallyport-bench-"
	markDigits = 8
	markLen    = len(markPrefix) + markDigits + 1 + markDigits
)

const (
	bodyHead = `{"type":"push","ref":"refs/heads/main","id":"`
	bodyFill = `","repository":{"id":1296269,"full_name":"octo-org/octo-repo","private":true},` +
		`"pusher":{"name":"octocat"},"fill":"`
	bodyTail = `"}`
)

// Body returns the body of event seq of an epoch: JSON without insignificant space, BodySize bytes long, no two alike.
func Body(epoch, seq uint32) []byte {
	body := make([]byte, 0, BodySize)
	body = append(body, bodyHead...)
	body = append(body, markPrefix...)
	body = append(body, make([]byte, markDigits)...)
	body = append(body, '-')
	body = append(body, make([]byte, markDigits)...)
	body = append(body, bodyFill...)
	body = append(body, filler(BodySize-len(body)-len(bodyTail))...)
	body = append(body, bodyTail...)
	digits := body[len(bodyHead)+len(markPrefix):]
	putHex(digits, epoch)
	SetSeq(body, seq)
	return body
}

// SetSeq turns a body made by Body into that of another event of the same epoch, without allocating.
func SetSeq(body []byte, seq uint32) {
	putHex(body[len(bodyHead)+markLen-markDigits:], seq)
}

// Find returns the mark in a forwarded body.
func Find(body []byte) (epoch, seq uint32, ok bool) {
	i := bytes.Index(body, []byte(markPrefix))
	if i < 0 || len(body) < i+markLen {
		return 0, 0, false
	}
	digits := body[i+len(markPrefix) : i+markLen]
	if digits[markDigits] != '-' {
		return 0, 0, false
	}
	e, errEpoch := strconv.ParseUint(string(digits[:markDigits]), 16, 32)
	s, errSeq := strconv.ParseUint(string(digits[markDigits+1:]), 16, 32)
	return uint32(e), uint32(s), errEpoch == nil && errSeq == nil
}

func putHex(dst []byte, n uint32) {
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], n)
	hex.Encode(dst, raw[:])
}

// filler returns n hexadecimal digits that look random and are the same in every run, so that runs compare.
func filler(n int) []byte {
	var text []byte
	block := sha256.Sum256([]byte(markPrefix))
	for len(text) < n {
		text = hex.AppendEncode(text, block[:])
		block = sha256.Sum256(block[:])
	}
	return text[:n]
}
