package setup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/atomicfile"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// DevCredentialsFile is the name of development mode's file inside the data folder.
const DevCredentialsFile = "dev-credentials.json"

const (
	devEmail   = "dev@localhost"
	devKeyName = "development credentials"
	// devKeyLifetime outlives any checkout: the file is to stay valid from start to start.
	devKeyLifetime = 10 * 365 * 24 * time.Hour
	maxDevFile     = 64 << 10
)

// devCredentials is the form of the file.
type devCredentials struct {
	// BaseURL ends in /api/v1.
	BaseURL       string `json:"base_url"`
	APIKey        string `json:"api_key"`
	EnvironmentID string `json:"environment_id"`
	Email         string `json:"email"`
	Password      string `json:"password"`
}

// EnsureDev makes sure that the file dev-credentials.json in dataDir has working credentials: an owner to sign in as,
// and a key of the environment development with every grant. It keeps the parts that still work and replaces the rest.
// baseURL is written as given and ends in /api/v1. EnsureDev returns installation.ErrNotDev for a database that
// development mode did not create.
func (s *Service) EnsureDev(ctx context.Context, dataDir, baseURL string) error {
	if !s.installation.Dev {
		return installation.ErrNotDev
	}
	path := filepath.Join(dataDir, DevCredentialsFile)
	found, err := readDevFile(path)
	if err != nil {
		return err
	}
	actor := access.System("dev")
	c := found
	c.BaseURL = baseURL
	if err := s.ensureDevOwner(ctx, actor, &c); err != nil {
		return fmt.Errorf("make the development owner: %w", err)
	}
	if err := s.ensureDevKey(ctx, actor, &c); err != nil {
		return fmt.Errorf("make the development key: %w", err)
	}
	if c == found {
		return nil
	}
	return writeDevFile(path, c)
}

func (s *Service) ensureDevOwner(ctx context.Context, actor access.Principal, c *devCredentials) error {
	if c.Email != "" && c.Password != "" {
		right, err := s.signIn.HasPassword(ctx, c.Email, secretbox.Secret(c.Password))
		if err != nil || right {
			return err
		}
	}
	c.Email, c.Password = devEmail, rand.Text()
	_, err := s.CreateOwner(ctx, actor, "", c.Email, secretbox.Secret(c.Password))
	if errors.Is(err, members.ErrEmailTaken) {
		return s.signIn.ResetPassword(ctx, actor, c.Email, secretbox.Secret(c.Password))
	}
	return err
}

func (s *Service) ensureDevKey(ctx context.Context, actor access.Principal, c *devCredentials) error {
	env, err := s.devEnvironment(ctx, actor, c.EnvironmentID)
	if err != nil {
		return err
	}
	c.EnvironmentID = string(env.ID)
	// Any reason for which the key does not work is a reason to make another.
	if p, err := s.keys.Identify(ctx, c.APIKey, ""); err == nil && p.Environment == env.ID &&
		slices.Equal(p.Grants.Routes(), access.Routes()) {
		return nil
	}
	expires := clock.Millis(s.clock.Now().Add(devKeyLifetime))
	_, secret, err := s.keys.CreateKey(ctx, actor, apikeys.NewKey{
		Name: devKeyName, Environment: env.ID, ExpiresMillis: &expires,
		Grants: []apikeys.Grant{{Effect: apikeys.Allow, Routes: access.Routes()}},
	})
	c.APIKey = secret.Reveal()
	return err
}

// devEnvironment returns the environment of the credentials there are, also when it was renamed, else development,
// which it creates where it was deleted.
func (s *Service) devEnvironment(ctx context.Context, actor access.Principal, known string) (team.Environment, error) {
	list, err := s.team.Environments(ctx, actor)
	if err != nil {
		return team.Environment{}, err
	}
	for _, is := range []func(e team.Environment) bool{
		func(e team.Environment) bool { return string(e.ID) == known },
		func(e team.Environment) bool { return e.Name == team.Development },
	} {
		if i := slices.IndexFunc(list, is); i >= 0 {
			return list[i], nil
		}
	}
	return s.team.CreateEnvironment(ctx, actor, team.NewEnvironment{Name: team.Development, Type: team.Test})
}

// readDevFile returns what the file holds. A file that is missing, damaged, or that others could read holds nothing
// that is worth keeping.
func readDevFile(path string) (devCredentials, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return devCredentials{}, nil
	}
	if err != nil {
		return devCredentials{}, fmt.Errorf("read the development credentials: %w", err)
	}
	// Windows reports permission bits that say nothing about who can read.
	exposed := runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
	if !info.Mode().IsRegular() || info.Size() > maxDevFile || exposed {
		return devCredentials{}, nil
	}
	b, err := os.ReadFile(path) //nolint:gosec // the operator chooses the data folder
	if err != nil {
		return devCredentials{}, fmt.Errorf("read the development credentials: %w", err)
	}
	return decodeDevFile(b), nil
}

func decodeDevFile(b []byte) devCredentials {
	var c devCredentials
	if json.Unmarshal(b, &c) != nil {
		return devCredentials{}
	}
	return c
}

// writeDevFile puts the file in place in one step, readable for its owner alone.
func writeDevFile(path string, c devCredentials) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the development credentials: %w", err)
	}
	if err := atomicfile.Replace(path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the development credentials: %w", err)
	}
	return nil
}

// ReadDev returns what development mode has left in dataDir for a client on the same machine: the base URL of the API
// and a key. Both are empty where it has left nothing that only the caller can read.
func ReadDev(dataDir string) (baseURL string, key secretbox.Secret, err error) {
	c, err := readDevFile(filepath.Join(dataDir, DevCredentialsFile))
	return c.BaseURL, secretbox.Secret(c.APIKey), err
}
