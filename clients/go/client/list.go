package client

import (
	"context"
	"fmt"
	"strconv"
)

// List reads a list of the server page by page.
//
//	jobs := queue.Jobs(client.JobFilter{State: client.Dead})
//	for jobs.Next(ctx) {
//		fmt.Println(jobs.Item().ID)
//	}
//	if err := jobs.Err(); err != nil {
//		return err
//	}
//
// A List is for one goroutine.
type List[T any] struct {
	client   *Client
	path     string
	pageSize int
	items    []T
	current  T
	next     *string
	started  bool
	seen     map[string]struct{}
	err      error
}

type page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

func newList[T any](c *Client, path string, err error) *List[T] {
	return &List[T]{client: c, path: path, err: err, seen: make(map[string]struct{})}
}

// PageSize sets how many items each request asks for: 1 to 1,000. Default: as the server says. It returns the list.
func (l *List[T]) PageSize(items int) *List[T] {
	l.pageSize = items
	return l
}

// Next reads the next item, and returns false at the end of the list or after an error.
func (l *List[T]) Next(ctx context.Context) bool {
	// A page may be empty and still have a next one.
	for len(l.items) == 0 {
		if l.err != nil || l.started && l.next == nil {
			return false
		}
		l.fetch(ctx)
	}
	l.current, l.items = l.items[0], l.items[1:]
	return true
}

// Item returns the item that Next has read.
func (l *List[T]) Item() T { return l.current }

// Err returns the error that has ended the list, if any.
func (l *List[T]) Err() error { return l.err }

// All reads all items that are left.
func (l *List[T]) All(ctx context.Context) ([]T, error) {
	items := []T{}
	for l.Next(ctx) {
		items = append(items, l.current)
	}
	return items, l.err
}

func (l *List[T]) fetch(ctx context.Context) {
	path := l.path
	if l.pageSize > 0 {
		path = query(path, "limit", strconv.Itoa(l.pageSize))
	}
	if l.next != nil {
		path = query(path, "cursor", *l.next)
	}
	answer, err := fetch[page[T]](ctx, l.client, get(path))
	if err != nil {
		l.err = err
		return
	}
	l.started, l.items, l.next = true, answer.Items, answer.Next
	if l.next == nil {
		return
	}
	if _, repeated := l.seen[*l.next]; repeated {
		l.err = unreadable(200, fmt.Errorf("the cursor %s of a list came twice", *l.next))
		return
	}
	l.seen[*l.next] = struct{}{}
}
