//go:build linux

package soak

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// behaviour is how a receiver treats requests.
type behaviour string

const (
	accept behaviour = "accepts"
	// slow takes up to 100 ms, and sometimes refuses.
	slow behaviour = "is slow"
	// hang never responds.
	hang behaviour = "hangs"
	// drip sends a byte of an endless response now and then.
	drip behaviour = "drips"
	// huge sends a response of many megabytes.
	huge behaviour = "sends huge responses"
	// resetEarly resets the connection instead of a response, resetLate after its head.
	resetEarly behaviour = "resets before the response"
	resetLate  behaviour = "resets within the response"
	// redirect redirects to the trap.
	redirect behaviour = "redirects"
	gone     behaviour = "is gone"
	busy     behaviour = "is busy"
	storm    behaviour = "fails"
	// garbage sends what is not HTTP.
	garbage behaviour = "speaks no HTTP"
)

// hostile returns the behaviours that a run draws from.
func hostile() []behaviour {
	return []behaviour{hang, drip, huge, resetEarly, resetLate, redirect, gone, busy, storm, garbage}
}

const (
	dripPause = 100 * time.Millisecond
	hugeSize  = 32 << 20
)

// respond treats one request and reports whether the connection continues. status notes a status line before it is
// sent.
func (b behaviour) respond(conn net.Conn, trap string, status func(int)) bool {
	say := func(code int, rest string) bool {
		status(code)
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %d Status\r\n%s", code, rest)
		return err == nil
	}
	const empty = "Content-Length: 0\r\n\r\n"
	switch b {
	case accept:
		return say(200, empty)
	case slow:
		wait := time.NewTimer(rand.N(100 * time.Millisecond))
		<-wait.C
		if rand.IntN(10) == 0 {
			return say(500, empty)
		}
		return say(200, empty)
	case hang:
		_, _ = io.Copy(io.Discard, conn) // until the sender ends, or the behaviour
		return false
	case drip:
		if !say(200, "Content-Length: 100000\r\n\r\n") {
			return false
		}
		for again := time.NewTicker(dripPause); ; <-again.C {
			if _, err := conn.Write([]byte{'.'}); err != nil {
				again.Stop()
				return false
			}
		}
	case huge:
		if !say(200, fmt.Sprintf("Content-Length: %d\r\n\r\n", hugeSize)) {
			return false
		}
		block := make([]byte, 64<<10)
		for range hugeSize / len(block) {
			if _, err := conn.Write(block); err != nil {
				return false
			}
		}
		return true
	case resetEarly:
		reset(conn)
		return false
	case resetLate:
		say(200, "Content-Length: 100\r\n\r\nhalf")
		reset(conn)
		return false
	case redirect:
		return say(302, "Location: "+trap+"\r\n"+empty)
	case gone:
		return say(410, empty)
	case busy:
		return say(429, "Retry-After: 1\r\n"+empty)
	case storm:
		return say(503, empty)
	case garbage:
		_, _ = io.WriteString(conn, "HELO 200 OK\r\n\r\n") // the sender ends the connection
		return false
	default:
		panic("behaviour " + string(b))
	}
}
