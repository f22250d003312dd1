package client

import (
	"context"
	"net/http"
	"time"
)

// NewAPIKey describes an API key. It cannot allow more than the key of the client.
type NewAPIKey struct {
	// Scopes are publish, consume, read and admin.
	Scopes []string
	// Description is for people: 1 to 255 bytes.
	Description string
	// ExpiresAt is when the key expires; the zero time means never.
	ExpiresAt time.Time
	// Namespace is by default the namespace of the client.
	Namespace string
	// Pool is by default the pool of the key of the client.
	Pool string
}

// APIKey is an API key, without its secret.
type APIKey struct {
	ID          string     `json:"id"`
	Namespace   string     `json:"namespace"`
	Pool        string     `json:"pool"`
	Scopes      []string   `json:"scopes"`
	Description string     `json:"description"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// CreatedKey is a new API key. The server shows the secret only once.
type CreatedKey struct {
	Outcome string `json:"outcome"`
	Secret  string `json:"secret"`
	Key     APIKey `json:"key"`
}

// CreateKey creates an API key. Needs the scope admin. It is repeated only if it was surely not applied.
func (c *Client) CreateKey(ctx context.Context, key NewAPIKey) (*CreatedKey, error) {
	body := map[string]any{"scopes": key.Scopes, "description": key.Description}
	if !key.ExpiresAt.IsZero() {
		body["expires_at"] = key.ExpiresAt
	}
	if key.Namespace != "" {
		body["namespace"] = key.Namespace
	}
	if key.Pool != "" {
		body["pool"] = key.Pool
	}
	created, err := fetchJSON[CreatedKey](ctx, c, http.MethodPost, "/keys", body, false)
	if err != nil {
		return nil, err
	}
	return &created, nil
}

// Keys lists the API keys of the namespace. Needs the scope admin.
func (c *Client) Keys() *List[APIKey] { return newList[APIKey](c, "/keys", nil) }

// RevokeKey makes an API key useless within a second. Needs the scope admin.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	if id == "" {
		return invalid("id", "the id of the API key is empty")
	}
	r := &request{method: http.MethodDelete, path: "/keys/" + escape(id), safe: true}
	_, err := c.send(ctx, r)
	return err
}
