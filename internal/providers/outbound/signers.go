package outbound

import "net/http"

func signAWS(r *renderer, m *Mode, req *http.Request, body []byte) error  { return refuse("mode", "x") }
func signOAuth1(r *renderer, m *Mode, req *http.Request) error            { return refuse("mode", "x") }
func signHMAC(r *renderer, m *Mode, req *http.Request, body []byte) error { return refuse("mode", "x") }
