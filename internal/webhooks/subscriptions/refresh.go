package subscriptions

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// collectionVersion returns the version of the stored subscriptions.
func collectionVersion(ctx context.Context, d *db.DB) (int64, error) {
	versions, err := d.Versions(ctx)
	return versions[collection], err
}

// changeKey is what a change of a subscription records for other processes.
func changeKey(env id.Environment, subscriptionID string) string {
	return string(env) + "/" + subscriptionID
}

func parseChangeKey(key string) targetKey {
	env, subscriptionID, _ := strings.Cut(key, "/")
	return targetKey{id.Environment(env), subscriptionID}
}

// maxRefreshed limits the environments whose indexes are changed at the same time.
const maxRefreshed = 4

// Refresh applies the changes of other processes to what is in memory, and reads nothing else again. If it is not known
// what has changed, it drops everything that was read at another version. An index whose changes cannot be read in time
// is dropped. A job calls Refresh every second.
func (s *Service) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	changes, err := s.changes(ctx)
	if err != nil {
		return err
	}
	if changes.Known {
		s.followAll(ctx, changes.Keys)
	} else {
		s.forgetOthers(changes.Version)
		s.targets.DropOthers(changes.Version)
	}
	s.seen = changes.Version
	return nil
}

// Forget drops everything in memory, so that it is read again.
func (s *Service) Forget() {
	s.forgetAll()
	s.targets.DropAll()
}

func (s *Service) changes(ctx context.Context) (db.Changes, error) {
	ctx, cancel := context.WithTimeout(ctx, db.ChangesTimeout)
	defer cancel()
	return s.cfg.DB.Changes(ctx, collection, s.seen)
}

// followAll applies changes of many environments. All of them together have db.ChangesTimeout, so that one whose rows
// are slow to read does not keep this process from the changes of others.
func (s *Service) followAll(ctx context.Context, keys []string) {
	changed := map[id.Environment][]string{}
	for _, text := range keys {
		key := parseChangeKey(text)
		changed[key.env] = append(changed[key.env], key.id)
		s.targets.Drop(key)
	}
	ctx, cancel := context.WithTimeout(ctx, db.ChangesTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(maxRefreshed)
	for env, ids := range changed {
		group.Go(func() error {
			s.follow(ctx, env, ids...)
			return nil
		})
	}
	_ = group.Wait() // follow has no errors
}

// changed brings what this process has in memory of the subscription up to date. It runs after every change, also after
// a failed commit, because a commit whose response was lost may have happened.
func (s *Service) changed(ctx context.Context, env id.Environment, subscriptionID string) {
	// The change may be stored, so this process follows it even if the caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	s.follow(ctx, env, subscriptionID)
	s.targets.Drop(targetKey{env, subscriptionID})
}
