package client_test

import (
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

func TestClientBulk(t *testing.T) {
	c, ctx := serve(t), t.Context()
	body, delay := "x", "1h"
	for range 3 {
		if _, err := c.Put(ctx, "promo", httpapi.Envelope{Body: &body, Time: httpapi.Time{Delay: &delay}}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.PreviewBulk(ctx, httpapi.BulkRequest{Action: "cancel", Filter: httpapi.BulkFilter{Topic: "promo"}})
	if err != nil || p.Matched != 3 || p.Confirm == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	job, err := c.StartBulk(ctx, p.Confirm)
	for err == nil && job.State == "running" {
		job, err = c.Bulk(ctx, job.ID)
	}
	if err != nil || job.State != "done" || job.Changed != 3 {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err = c.StopBulk(ctx, job.ID); err != nil || job.State != "done" {
		t.Errorf("stopped when it was done: %+v, %v", job, err)
	}
	if all, err := c.Bulks(ctx); err != nil || len(all.Bulk) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	var p404 *httpapi.Problem
	if _, err := c.Bulk(ctx, "nosuch/../x"); !errors.As(err, &p404) || p404.Status != 404 {
		t.Errorf("%v", err)
	}
	if now, err := c.Time(ctx); err != nil || now.NowMs == 0 {
		t.Errorf("%+v, %v", now, err)
	}
}
