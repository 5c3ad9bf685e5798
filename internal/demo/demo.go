// Package demo shows the gateway at work: one of its own in a temporary folder, a delivery as GitHub makes it, a
// receiver that verifies what arrives with a library that others wrote, a forgery that is refused, and an action at an
// API, which happens once. It leaves nothing behind.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
)

// Options describe the demonstration's surroundings.
type Options struct {
	// Out takes the story, one line a step.
	Out io.Writer
	// Logger takes what the gateway logs.
	Logger  *slog.Logger
	Clock   clock.Clock
	Version string
	// TempDir is where the folder is made; empty means the system's.
	TempDir string
	// Keep leaves the gateway running after the story, with hints, until the context ends.
	Keep bool
	// Timeout bounds the story.
	Timeout time.Duration
}

// stopTimeout bounds the end of the gateway, which has nothing left to do by then.
const stopTimeout = 10 * time.Second

// Run plays the demonstration. It returns an error where the gateway did not do what the story says.
func Run(ctx context.Context, o Options) error {
	s := &stage{out: o.Out, clock: o.Clock}
	if err := s.run(ctx, o); err != nil || o.Keep {
		return err
	}
	return s.writeLine("All of it is removed again. `sallyport demo --keep` leaves it running, `sallyport serve --dev` " +
		"starts a gateway that stays.")
}

// run plays the story and removes what it needed.
func (s *stage) run(ctx context.Context, o Options) (err error) {
	if s.dir, err = os.MkdirTemp(o.TempDir, "sallyport-demo-"); err != nil {
		return fmt.Errorf("make the folder of the demo: %w", err)
	}
	defer func() {
		if rerr := os.RemoveAll(s.dir); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove the folder of the demo: %w", rerr))
		}
	}()
	s.provider = egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{Clock: o.Clock})
	defer s.provider.Close()
	if s.receiver, err = newReceiver(ctx, o.Clock); err != nil {
		return err
	}
	defer s.receiver.close()
	if s.shop, err = newShop(ctx, "127.0.0.1:0", rand.Text()); err != nil {
		return err
	}
	defer s.shop.close()
	gateway, err := startGateway(ctx, o, s.dir)
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if serr := gateway.stop(stopCtx); serr != nil {
			err = errors.Join(err, fmt.Errorf("stop the gateway of the demo: %w", serr))
		}
	}()
	s.api, s.server = gateway.api, gateway.server
	story, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := s.play(story); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return fmt.Errorf("the demo did not go as it should: %w", err)
	}
	if !o.Keep {
		return nil
	}
	return s.keep(ctx)
}

// keep prints how to look around, and waits until ctx ends.
func (s *stage) keep(ctx context.Context) error {
	if err := s.writeLine("The gateway keeps running until you press Ctrl-C, and is removed then."); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, `
In another terminal:
  export SALLYPORT_DATA='%s'
  sallyport events list
  sallyport events show %s --explain
  sallyport events replay %s --force
  sallyport executions list
  sallyport actions run http/post --connection-id shop --set path=orders --set 'body={"item":"a chair"}'
Its API: %s/docs
`, s.dir, s.event, s.event, s.server)
	if err != nil {
		return fmt.Errorf("write the story: %w", err)
	}
	<-ctx.Done()
	return nil
}
