package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"sallyport/internal/app"
	"sallyport/internal/operator"
	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/config"
)

// gateway is a server in development mode, and a client with its key.
type gateway struct {
	app    *app.App
	api    *apiclient.Client
	server string
}

// portTries is how often another free port is chosen if another process took the last one first.
const portTries = 5

// startGateway starts a server in dir on a free port of the loopback interface. Nothing configures it but this.
func startGateway(ctx context.Context, o Options, dir string) (*gateway, error) {
	for try := 1; ; try++ {
		g, err := tryGateway(ctx, o, dir)
		if err == nil {
			return g, nil
		}
		if try == portTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("start the gateway of the demo: %w", err)
		}
	}
}

func tryGateway(ctx context.Context, o Options, dir string) (*gateway, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	// The port is chosen first, because the webhook URL that the story shows carries it.
	cfg, err := config.Load([]string{"--dev", "--data=" + dir, "--listen=" + addr}, nil, os.ReadFile)
	if err != nil {
		return nil, err
	}
	a, err := app.New(ctx, app.Options{Config: cfg, Logger: o.Logger, Clock: o.Clock, Version: o.Version})
	if err != nil {
		return nil, err
	}
	g := &gateway{app: a, server: "http://" + addr}
	if err := g.open(ctx, dir); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, a.Stop(stopCtx))
	}
	return g, nil
}

func (g *gateway) open(ctx context.Context, dir string) error {
	if err := g.app.Start(ctx); err != nil {
		return err
	}
	dev, ok, err := operator.ReadDevCredentials(dir)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("development mode left no credentials")
	}
	g.api, err = apiclient.New(apiclient.Options{Server: g.server, Key: dev.APIKey, UserAgent: "sallyport-demo"})
	return err
}

func (g *gateway) stop(ctx context.Context) error {
	g.api.Close()
	return g.app.Stop(ctx)
}

// freeAddr returns a loopback address whose port was free a moment ago.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return addr, nil
}
