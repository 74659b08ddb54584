package record_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// A deliver record names queues once and messages by differences; the same value is decoded into again and again.
func ExampleDeliver() {
	d := record.Deliver{
		Frontier: timerlog.Key{Due: 2000, ID: 8},
		Queues:   []record.DeliverQueue{{Topic: 7, Queue: 2, Base: 100}},
		Items: []record.DeliverItem{
			{Key: timerlog.Key{Due: 1999, ID: 5}, Position: 4096, Size: 250},
			{Key: timerlog.Key{Due: 2000, ID: 8}, Position: 4352, Size: 250},
		},
	}
	payload := d.Append(nil)

	var got record.Deliver
	if err := got.Decode(payload); err != nil {
		fmt.Println(err)
	}
	offset := got.Queues[0].Base
	for _, item := range got.Items {
		fmt.Printf("message %d is at offset %d, its bytes at %d\n", item.ID, offset, item.Position)
		offset++
	}
	// Output:
	// message 5 is at offset 100, its bytes at 4096
	// message 8 is at offset 101, its bytes at 4352
}

func ExampleName() {
	fmt.Println(record.Name(record.KindDeliver), record.Name(99))
	// Output: deliver kind 99
}
